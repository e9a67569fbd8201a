// Spans of memory cut into pieces: good fit in bounded steps, immediate merge, all bookkeeping outside the memory.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>

#include "impl/core/order.h"
#include "impl/core/resource.h"
#include "impl/core/stream.h"
#include "impl/memory/figure.h"

namespace kina {

// A span that an arena was given; it goes back whole, with the same numbers.
struct ArenaSpan {
  void* base = nullptr;
  uint64_t bytes = 0;
  uint64_t alignment = 0;
};

// Moments of several streams. Shared by the pieces that one block was cut into.
class Points final : public Counted {
 public:
  // One moment of each stream; where there are too many, one stream runs after another one's. False where that fails.
  bool add(const Point& point, OrderCalls& calls) noexcept;
  std::span<const Point> list() const noexcept { return {points_.data(), count_}; }

 private:
  ~Points() override = default;
  std::array<Point, 6> points_;
  size_t count_ = 0;
};

// What the next user of free bytes has to run after. Free pieces lie on shelves: one for nothing at all, one for
// `points`, and one for each stream, where `position` says how far it was.
struct Stamp {
  static constexpr uint32_t kNothing = 0;
  static constexpr uint32_t kPoints = 1;
  static constexpr uint32_t kStreams = 2;  // the first of them

  uint32_t shelf = kNothing;
  uint64_t position = 0;
  Stream* stream = nullptr;  // which outlives the arena
  Ref<Points> points;

  // Calls f(point) for each moment until it answers false; returns whether it never did.
  template <class F>
  bool all(F&& f) const {
    if (stream != nullptr && !f(Point{stream, position})) return false;
    if (points)
      for (const Point& point : points->list())
        if (!f(point)) return false;
    return true;
  }
};

// Not synchronised, and never touches the memory that it manages: it may be a device's. Only `add`, `add_shelf` and
// `take` need host memory; without it they refuse with nothing changed.
class Arena {
  struct Piece;
  struct Span;

 public:
  // Every piece is a multiple of `granule` bytes, a power of two; spans are aligned to it.
  explicit Arena(uint64_t granule) noexcept : granule_shift_(std::countr_zero(granule)) { end_.next = &end_; }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  bool add(const ArenaSpan& span, const Stamp& stamp = {}) noexcept;
  // Makes one more shelf, numbered on from Stamp::kStreams.
  bool add_shelf(Stream* stream) noexcept;

  // A piece of that shelf for `request`, which is remembered with it, and with `taker`'s shelf; NULL when none holds
  // it.
  // Cuts no piece of less than `room` bytes.
  void* take(const Request& request, uint32_t shelf = Stamp::kNothing, uint32_t taker = Stamp::kNothing,
             uint64_t room = 0) noexcept;
  bool can_take(const Request& request, uint32_t shelf) const noexcept {
    return has_pieces(shelf) && find(request.bytes, request.alignment, shelf) != nullptr;
  }
  // For a taker of `shelf`, right behind a live block; NULL where no piece lies there that holds it and that the taker
  // may have at once.
  void* take_behind(const void* neighbour, const Request& request, uint32_t shelf) noexcept;
  // The shelf of the taker of a live block; none where there is no such block.
  uint32_t taker_of(const void* data) const noexcept;
  // The same of a piece whose stamp the taker may follow: f(point) says so of each moment, or makes it so.
  template <class F>
  void* take_after(const Request& request, uint32_t shelf, uint32_t taker, F&& f) noexcept {
    if (!has_pieces(shelf)) return nullptr;
    if (!has_room() && !make_room()) return nullptr;
    Piece* piece = find(request.bytes, request.alignment, shelf);
    if (piece == nullptr) return nullptr;
    const bool is_streams = shelf >= Stamp::kStreams;
    const bool may_take = is_streams ? f(Point{shelf_of(shelf).stream, piece->position}) : stamp_of(*piece).all(f);
    return may_take ? occupy(*piece, request, taker) : nullptr;
  }
  // Free neighbours of one shelf become one piece.
  Return give(const void* data, const Request& request, const Stamp& stamp = {}) noexcept;
  // The block stays live as one of `use`.
  Return change_use(const void* data, const Request& request, BlockUse use) noexcept;
  // The block is over, but its bytes are never used again.
  Return abandon(const void* data, const Request& request) noexcept;

  // Free neighbours, whatever their shelves, that hold `request` together.
  struct Run {
    Piece* first = nullptr;
    Piece* last = nullptr;
    explicit operator bool() const noexcept { return first != nullptr; }
  };
  Run find_run(const Request& request) const noexcept;
  // They become one piece under `stamp`, which follows all of theirs.
  void join(const Run& run, const Stamp& stamp) noexcept;

  template <class F>
  void for_each_span(F&& f) const {
    for (const Span* span = spans_; span != nullptr; span = span->next) f(span->memory);
  }
  // A wholly free span whose going leaves at least `keep_bytes` free bytes, and that did not come back in this round or
  // a later one; NULL when there is none.
  Span* find_free_span(uint64_t keep_bytes, uint64_t round = 1) const noexcept;
  // Takes it out with its pieces, which say what its memory has to wait for: it ends, or comes back as it was.
  Run detach(Span& span) noexcept;
  void end(Span& span) noexcept;
  void come_back(Span& span, uint64_t round) noexcept;
  Stamp next_stamp(Run& pieces) const noexcept;  // of the first one, which is left out then

  // Calls f(point) for all that their stamps say until it answers false; returns whether it never did.
  template <class F>
  bool all(const Run& run, F&& f) const {
    for (const Piece* piece = run.first; piece != nullptr; piece = piece == run.last ? nullptr : piece->higher)
      if (!stamp_of(*piece).all(f)) return false;
    return true;
  }

  // The bytes of a span that is sure to hold `request` when it is empty; 0 when 64 bits do not hold the number.
  uint64_t needed(uint64_t bytes) const noexcept {
    return bytes > ~uint64_t{0} - granule() ? 0 : (bytes + granule() - 1) & ~(granule() - 1);
  }
  uint64_t granule() const noexcept { return uint64_t{1} << granule_shift_; }
  uint64_t free_bytes() const noexcept { return free_bytes_; }
  bool has_pieces(uint32_t shelf) const noexcept { return shelf < shelf_count_ && shelf_of(shelf).words != 0; }
  uint32_t shelves() const noexcept { return shelf_count_; }
  // NULL for the shelves that are no stream's.
  Stream* stream_of(uint32_t shelf) const noexcept { return shelf < shelf_count_ ? shelf_of(shelf).stream : nullptr; }
  // Without any lock.
  uint64_t metadata_bytes() const noexcept { return sizeof(*this) + table_bytes_.get(); }

 private:
  // A run of granules of one span, free or live, between its neighbours in address order. One line of the cache: most
  // of what a take or give costs is the pieces that it has to look at.
  struct alignas(64) Piece {
    uint64_t address = 0;
    uint64_t bytes = 0;
    Piece* lower = nullptr;  // neighbours inside the span
    Piece* higher = nullptr;
    Piece** link = nullptr;  // what points to it in the list of its bin, while free
    Piece* next = nullptr;   // there, where `end_` comes last, or in the list of its place in `live_`
    union {
      uint64_t requested_bytes = 0;  // while live
      uint64_t position;             // while free: of the shelf's stream
      Points* points;                // with a reference, on that shelf
    };
    uint32_t shelf = Stamp::kNothing;  // while live: the taker's
    union {
      BlockUse use = BlockUse::internal;  // while live
      uint16_t bin;                       // while free
    };
    uint8_t alignment_log = 0;
    bool is_free = false;
  };
  struct Span {
    ArenaSpan memory;
    Piece* first;  // NULL when the span is smaller than a granule
    Span* next;
    uint64_t back_in = 0;  // the round in which it came back last
  };
  struct Slab {
    std::array<Piece, 128> pieces;
    Slab* next;
  };
  // Bins: eight for each doubling of the number of granules. A bitmap of them, and one of its words.
  static constexpr uint32_t kBinsPerDoubling = 8;
  static constexpr uint32_t kWords = 8;
  static constexpr uint32_t kBins = kWords * 64;  // the last ones stay empty
  struct Shelf {
    Shelf(Stream* of, Piece& end) noexcept : stream(of) { heads.fill(&end); }
    Stream* stream;
    uint32_t words = 0;  // bit n: word n of `bins` is not 0
    std::array<uint64_t, kWords> bins{};
    std::array<Piece*, kBins> heads;
  };

  static uint32_t bin_of(uint64_t granules) noexcept {
    if (granules < kBinsPerDoubling) return static_cast<uint32_t>(granules);
    const auto log = static_cast<uint32_t>(63 - std::countl_zero(granules));
    return (log - 2) * kBinsPerDoubling + static_cast<uint32_t>(granules >> (log - 3) & 7);
  }
  uint32_t bin_of(const Piece& piece) const noexcept { return bin_of(piece.bytes >> granule_shift_); }
  // The lowest bin at or above `from` that holds a piece; the last one, which is empty, when there is none.
  static uint32_t next_bin(const Shelf& shelf, uint32_t from) noexcept;
  Piece* find(uint64_t wanted, uint64_t alignment, uint32_t shelf) const noexcept;
  static bool holds(const Piece& piece, uint64_t bytes, uint64_t alignment) noexcept;
  // What holds `request` becomes its block.
  void* occupy(Piece& chosen, const Request& request, uint32_t taker) noexcept;
  // The same of all pieces that may be large enough, one by one.
  Piece* find_slowly(const Shelf& shelf, uint64_t bytes, uint64_t alignment) const noexcept;
  // Where the live block that starts at `data` hangs, or where it would; NULL before the first one.
  Piece** find_live(const void* data) const noexcept;
  Piece** place_of(uint64_t address) const noexcept;
  // For what one take may need.
  bool has_room() const noexcept { return unused_count_ >= 2 && 2 * live_count_ < live_places_; }
  bool make_room() noexcept;
  bool add_places() noexcept;
  // Where a live block stands in its list; NULL, with `answer`, where there is none of that request.
  Piece** find_block(const void* data, const Request& request, Return& answer) const noexcept;
  Piece* end_block(const void* data, const Request& request, Return& answer) noexcept;
  static void clear_stamp(Piece& piece) noexcept;
  static void set_stamp(Piece& piece, const Stamp& stamp) noexcept;
  Stamp stamp_of(const Piece& piece) const noexcept;
  static bool has_request(const Piece& piece, const Request& request) noexcept;
  static bool may_merge(const Piece* neighbour, const Piece& piece) noexcept;

  // In place where they are used: together they are most of a take or give.
  [[gnu::always_inline]] inline void link(Piece& piece) noexcept;
  [[gnu::always_inline]] inline void unlink(Piece& piece) noexcept;
  // Cuts `piece` after `bytes`; the rest is a new piece behind it, in no list.
  [[gnu::always_inline]] inline Piece& cut(Piece& piece, uint64_t bytes) noexcept;
  // `higher` becomes part of `lower`, its neighbour; both are in no list.
  [[gnu::always_inline]] inline void absorb(Piece& lower, Piece& higher) noexcept;

  Shelf& shelf_of(uint32_t shelf) noexcept { return shelf == Stamp::kNothing ? unordered_ : *others_[shelf]; }
  const Shelf& shelf_of(uint32_t shelf) const noexcept {
    return shelf == Stamp::kNothing ? unordered_ : *others_[shelf];
  }
  bool reserve_pieces(size_t count) noexcept;
  // Linked nowhere; its stamp comes next.
  Piece& new_piece(uint64_t address, uint64_t bytes, Piece* lower, Piece* higher) noexcept;
  void end_piece(Piece& piece) noexcept;

  const int granule_shift_;
  uint64_t free_bytes_ = 0;
  Piece end_;                       // of every bin's list: holds nothing, and may be linked by anybody
  Shelf unordered_{nullptr, end_};  // of Stamp::kNothing
  std::unique_ptr<std::unique_ptr<Shelf>[]> others_;
  uint32_t shelf_count_ = 1;
  uint32_t shelf_room_ = 1;
  // Live blocks by address: lists that are seldom longer than one.
  std::unique_ptr<Piece*[]> live_;
  uint64_t live_count_ = 0;
  uint64_t live_places_ = 0;  // a power of two, or 0
  int live_shift_ = 0;
  Span* spans_ = nullptr;
  Slab* slabs_ = nullptr;
  Figure table_bytes_;       // of spans, slabs and shelves, and of places for live blocks
  Piece* unused_ = nullptr;  // linked by `next`
  size_t unused_count_ = 0;
};

}  // namespace kina
