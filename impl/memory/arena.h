// Spans of memory cut into pieces: good fit in bounded steps, immediate merge, all bookkeeping outside the memory.
#pragma once

#include <array>
#include <cstdint>

#include "impl/core/resource.h"
#include "impl/memory/address_table.h"

namespace kina {

// A span that an arena was given; it goes back whole, with the same numbers.
struct ArenaSpan {
  void* base = nullptr;
  uint64_t bytes = 0;
  uint64_t alignment = 0;
};

// What becomes of a block that is given up: used again, or, where a device may still touch it, never.
enum class Fate : uint8_t { reuse, abandon };

// Not synchronised, and never touches the memory that it manages: it may be a device's. Only `add` and `take` need host
// memory; without it they refuse with nothing changed.
class Arena {
 public:
  // Every piece is a multiple of `granule` bytes, a power of two; spans are aligned to it.
  explicit Arena(uint64_t granule) noexcept : granule_(granule) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  bool add(const ArenaSpan& span) noexcept;
  // A piece for `request`, which is remembered with it; NULL when no piece holds it.
  void* take(const Request& request) noexcept;
  Return give(const void* data, const Request& request, Fate fate = Fate::reuse) noexcept;

  // Takes one wholly free span out of the arena whose going leaves at least `keep_bytes` free bytes. False: there is
  // none.
  bool remove_free_span(uint64_t keep_bytes, ArenaSpan& removed) noexcept;

  // The bytes of a span that is sure to hold `request` when it is empty; 0 when 64 bits do not hold the number.
  uint64_t needed(const Request& request) const noexcept;
  uint64_t granule() const noexcept { return granule_; }
  uint64_t free_bytes() const noexcept { return free_bytes_; }
  uint64_t metadata_bytes() const noexcept;

 private:
  // A run of granules of one span, free or live, between its neighbours in address order.
  struct Piece {
    uint64_t address = 0;
    uint64_t bytes = 0;
    Piece* lower = nullptr;  // neighbours inside the span
    Piece* higher = nullptr;
    Piece* previous = nullptr;  // in the list of its bin, while free
    Piece* next = nullptr;
    Request request;  // while live
    bool is_free = false;
  };
  struct Span {
    ArenaSpan memory;
    Piece* first;  // NULL when the span is smaller than a granule
    Span* next;
  };
  struct Slab {
    std::array<Piece, 128> pieces;
    Slab* next;
  };
  // Bins: eight for each doubling of the number of granules, a bitmap for each level.
  struct Bin {
    uint32_t level, index;
  };
  static constexpr uint32_t kLevels = 62;
  static constexpr uint32_t kBinsPerLevel = 8;

  static Bin bin_of(uint64_t granules) noexcept;
  // The lowest bin at or above `from` that holds a piece; false when there is none.
  bool next_bin(Bin from, Bin& found) const noexcept;
  Piece* find(uint64_t bytes, uint64_t alignment) const noexcept;
  Piece* first_fit(Bin bin, uint64_t bytes, uint64_t alignment) const noexcept;

  void link(Piece& piece) noexcept;
  void unlink(Piece& piece) noexcept;
  // Cuts `piece` after `bytes`; the rest is a new piece behind it, in no list.
  Piece& cut(Piece& piece, uint64_t bytes) noexcept;
  // `higher` becomes part of `lower`, its neighbour.
  void join(Piece& lower, Piece& higher) noexcept;

  bool reserve_pieces(size_t count) noexcept;
  Piece& new_piece() noexcept;
  void end_piece(Piece& piece) noexcept;

  const uint64_t granule_;
  uint64_t free_bytes_ = 0;
  uint64_t levels_ = 0;  // bit n: a bin of level n is not empty
  std::array<uint8_t, kLevels> bins_{};
  std::array<std::array<Piece*, kBinsPerLevel>, kLevels> heads_{};
  AddressTable<Piece*> live_;
  Span* spans_ = nullptr;
  Slab* slabs_ = nullptr;
  uint64_t table_bytes_ = 0;  // of spans and slabs
  Piece* unused_ = nullptr;   // linked by `next`
  size_t unused_count_ = 0;
};

}  // namespace kina
