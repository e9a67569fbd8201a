// Cutting, finding and merging pieces.
#include "impl/memory/arena.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace kina {
namespace {

template <class Node>
void delete_list(Node* first) noexcept {
  while (first != nullptr) delete std::exchange(first, first->next);
}

uint64_t round_up(uint64_t value, uint64_t power_of_two) noexcept {
  return (value + power_of_two - 1) & ~(power_of_two - 1);
}

}  // namespace

Arena::~Arena() {
  for (const Span* span = spans_; span != nullptr; span = span->next)
    for (Piece* piece = span->first; piece != nullptr; piece = piece->higher)
      if (piece->is_free) clear_stamp(*piece);
  delete_list(spans_);
  delete_list(slabs_);
}

uint32_t Arena::next_bin(const Shelf& shelf, uint32_t from) noexcept {
  uint32_t word = from / 64;
  uint64_t bins = shelf.bins[word] & ~uint64_t{0} << from % 64;
  if (bins == 0) {
    const uint32_t above = shelf.words & ~uint32_t{1} << word;
    if (above == 0) return kBins - 1;
    word = static_cast<uint32_t>(std::countr_zero(above));
    bins = shelf.bins[word];
  }
  return word * 64 + static_cast<uint32_t>(std::countr_zero(bins));
}

bool Arena::holds(const Piece& piece, uint64_t bytes, uint64_t alignment) noexcept {
  const uint64_t skipped = round_up(piece.address, alignment) - piece.address;
  return piece.bytes >= bytes && piece.bytes - bytes >= skipped;
}

Arena::Piece* Arena::find(uint64_t wanted, uint64_t alignment, uint32_t number) const noexcept {
  if (number >= shelf_count_) return nullptr;
  const Shelf& shelf = shelf_of(number);
  const uint64_t bytes = needed(wanted);
  if (shelf.words == 0 || bytes == 0) return nullptr;
  const uint64_t granules = bytes >> granule_shift_;
  const uint32_t own = bin_of(granules);
  if (shelf.words >> own / 64 == 0) return nullptr;
  // A piece of the request's own bin may be too small, but what fits there leaves larger ones whole: on replayed traces
  // a look at two of them saves as many spans as a look at all.
  Piece* first = shelf.heads[own];
  Piece* second = first->next;
  Piece* near = holds(*first, bytes, alignment) ? first : second;
  // Every piece of a higher bin, and of all above, is large enough: bounded steps.
  uint32_t enough = own + 1;
  if (alignment > granule()) [[unlikely]] {
    const uint64_t slack = alignment - granule();
    if (bytes > ~uint64_t{0} - slack) return nullptr;
    enough = bin_of((bytes + slack) >> granule_shift_) + 1;
  }
  Piece* far = shelf.heads[next_bin(shelf, enough)];
  // Which of the two it is nobody can foretell, so nothing branches on it.
  Piece* found = holds(*near, bytes, alignment) ? near : far;
  if (found != &end_) [[likely]]
    return found;
  return find_slowly(shelf, bytes, alignment);  // before the pool grows
}

Arena::Piece* Arena::find_slowly(const Shelf& shelf, uint64_t bytes, uint64_t alignment) const noexcept {
  for (uint32_t bin = next_bin(shelf, bin_of(bytes >> granule_shift_)); bin < kBins - 1;
       bin = next_bin(shelf, bin + 1)) {
    for (Piece* piece = shelf.heads[bin]; piece != &end_; piece = piece->next)
      if (holds(*piece, bytes, alignment)) return piece;
    if (alignment <= granule()) return nullptr;  // all bins above were seen to be empty
  }
  return nullptr;
}

bool Arena::add_shelf(Stream* stream) noexcept {
  const uint32_t wanted = std::max(shelf_count_, Stamp::kStreams) + 1;
  if (wanted > shelf_room_) {
    const uint32_t room = std::max(2 * shelf_room_, uint32_t{8});
    std::unique_ptr<std::unique_ptr<Shelf>[]> larger(new (std::nothrow) std::unique_ptr<Shelf>[room]);
    if (!larger) return false;
    for (uint32_t i = 0; i < shelf_count_ && others_; ++i) larger[i] = std::move(others_[i]);
    others_ = std::move(larger);
    shelf_room_ = room;
  }
  for (uint32_t i = shelf_count_; i < wanted; ++i) {
    others_[i].reset(new (std::nothrow) Shelf(i < Stamp::kStreams ? nullptr : stream, end_));
    if (!others_[i]) return false;
    table_bytes_.add(sizeof(Shelf));
    shelf_count_ = i + 1;
  }
  return true;
}

bool Points::add(const Point& point, OrderCalls& calls) noexcept {
  for (size_t i = 0; i < count_; ++i) {
    if (points_[i].stream != point.stream) continue;
    points_[i].position = std::max(points_[i].position, point.position);
    return true;
  }
  if (count_ < points_.size()) {
    points_[count_++] = point;
    return true;
  }
  if (!try_order_after(*points_[0].stream, point, calls)) return false;
  points_[0].position = now(*points_[0].stream).position;
  return true;
}

Arena::Piece& Arena::new_piece(uint64_t address, uint64_t bytes, Piece* lower, Piece* higher) noexcept {
  Piece& piece = *std::exchange(unused_, unused_->next);
  --unused_count_;
  piece.address = address;
  piece.bytes = bytes;
  piece.lower = lower;
  piece.is_free = false;
  piece.higher = higher;
  return piece;
}

void Arena::end_piece(Piece& piece) noexcept {
  clear_stamp(piece);
  piece.next = unused_;
  unused_ = &piece;
  ++unused_count_;
}

void Arena::link(Piece& piece) noexcept {
  const uint32_t bin = bin_of(piece);
  Shelf& shelf = shelf_of(piece.shelf);
  Piece*& head = shelf.heads[bin];
  piece.link = &head;
  piece.next = head;
  head->link = &piece.next;
  head = &piece;
  piece.is_free = true;
  piece.bin = static_cast<uint16_t>(bin);
  free_bytes_ += piece.bytes;
  shelf.bins[bin / 64] |= uint64_t{1} << bin % 64;
  shelf.words |= uint32_t{1} << bin / 64;
}

// Without branches: nobody can foretell whether a bin becomes empty.
void Arena::unlink(Piece& piece) noexcept {
  const uint32_t bin = piece.bin;
  Shelf& shelf = shelf_of(piece.shelf);
  *piece.link = piece.next;
  piece.next->link = piece.link;
  piece.is_free = false;
  free_bytes_ -= piece.bytes;
  uint64_t& bins = shelf.bins[bin / 64];
  bins &= ~(uint64_t{shelf.heads[bin] == &end_} << bin % 64);
  shelf.words &= ~(uint32_t{bins == 0} << bin / 64);
}

Arena::Piece& Arena::cut(Piece& piece, uint64_t bytes) noexcept {
  Piece& rest = new_piece(piece.address + bytes, piece.bytes - bytes, &piece, piece.higher);
  rest.shelf = piece.shelf;
  if (piece.shelf == Stamp::kPoints) {
    rest.points = piece.points;
    rest.points->retain();
  } else {
    rest.position = piece.position;
  }
  if (rest.higher != nullptr) rest.higher->lower = &rest;
  piece.higher = &rest;
  piece.bytes = bytes;
  return rest;
}

void Arena::absorb(Piece& lower, Piece& higher) noexcept {
  lower.bytes += higher.bytes;
  lower.higher = higher.higher;
  if (higher.higher != nullptr) higher.higher->lower = &lower;
  if (lower.shelf != Stamp::kPoints) lower.position = std::max(lower.position, higher.position);
  end_piece(higher);
}

bool Arena::add(const ArenaSpan& span, const Stamp& stamp) noexcept {
  const uint64_t bytes = span.bytes >> granule_shift_ << granule_shift_;
  if (!reserve_pieces(1)) return false;
  auto* added = new (std::nothrow) Span{span, nullptr, spans_};
  if (added == nullptr) return false;
  spans_ = added;
  table_bytes_.add(sizeof(Span));
  if (bytes == 0) return true;
  Piece& piece = new_piece(reinterpret_cast<uint64_t>(span.base), bytes, nullptr, nullptr);
  set_stamp(piece, stamp);
  added->first = &piece;
  link(piece);
  return true;
}

void Arena::clear_stamp(Piece& piece) noexcept {
  if (piece.shelf == Stamp::kPoints) piece.points->release();
  piece.shelf = Stamp::kNothing;
}

void Arena::set_stamp(Piece& piece, const Stamp& stamp) noexcept {
  piece.shelf = stamp.shelf;
  if (stamp.shelf == Stamp::kPoints) {
    piece.points = Ref<Points>(stamp.points).detach();
  } else {
    piece.position = stamp.position;
  }
}

Stamp Arena::stamp_of(const Piece& piece) const noexcept {
  if (piece.shelf == Stamp::kPoints) return {piece.shelf, 0, nullptr, Ref<Points>::share(piece.points)};
  return {piece.shelf, piece.position, shelf_of(piece.shelf).stream, nullptr};
}

bool Arena::has_request(const Piece& piece, const Request& request) noexcept {
  return piece.requested_bytes == request.bytes && uint64_t{1} << piece.alignment_log == request.alignment;
}

// The addresses of blocks share their low bits; the multiplication spreads the others into the high ones.
Arena::Piece** Arena::place_of(uint64_t address) const noexcept {
  return &live_[address * 0x9E3779B97F4A7C15U >> live_shift_];
}

Arena::Piece** Arena::find_live(const void* data) const noexcept {
  if (live_places_ == 0) return nullptr;
  const auto address = reinterpret_cast<uint64_t>(data);
  Piece** at = place_of(address);
  while (*at != nullptr && (*at)->address != address) at = &(*at)->next;
  return at;
}

bool Arena::make_room() noexcept { return reserve_pieces(2) && (2 * live_count_ < live_places_ || add_places()); }

bool Arena::add_places() noexcept {
  const uint64_t places = std::max(2 * live_places_, uint64_t{16});
  std::unique_ptr<Piece*[]> larger(new (std::nothrow) Piece*[places]());
  if (!larger) return false;
  const std::unique_ptr<Piece*[]> old = std::exchange(live_, std::move(larger));
  const uint64_t old_places = std::exchange(live_places_, places);
  table_bytes_.add((places - old_places) * sizeof(void*));
  live_shift_ = 64 - std::countr_zero(places);
  for (uint64_t place = 0; place < old_places; ++place)
    while (Piece* piece = old[place]) {
      old[place] = piece->next;
      Piece** at = place_of(piece->address);
      piece->next = std::exchange(*at, piece);
    }
  return true;
}

uint32_t Arena::taker_of(const void* data) const noexcept {
  Piece* const* at = find_live(data);
  return at == nullptr || *at == nullptr ? Stamp::kNothing : (*at)->shelf;
}

void* Arena::take(const Request& request, uint32_t shelf, uint32_t taker, uint64_t room) noexcept {
  if (!has_room() && !make_room()) return nullptr;
  Piece* piece = find(std::max(request.bytes, room), request.alignment, shelf);
  return piece == nullptr ? nullptr : occupy(*piece, request, taker);
}

void* Arena::take_behind(const void* neighbour, const Request& request, uint32_t shelf) noexcept {
  if (!has_room() && !make_room()) return nullptr;
  Piece* const* at = find_live(neighbour);
  Piece* piece = at == nullptr || *at == nullptr ? nullptr : (*at)->higher;
  if (piece == nullptr || !piece->is_free || (piece->shelf != shelf && piece->shelf != Stamp::kNothing)) return nullptr;
  return holds(*piece, needed(request.bytes), request.alignment) ? occupy(*piece, request, shelf) : nullptr;
}

void* Arena::occupy(Piece& chosen, const Request& request, uint32_t taker) noexcept {
  Piece* piece = &chosen;
  const uint64_t bytes = needed(request.bytes);
  unlink(*piece);
  if (const uint64_t skipped = round_up(piece->address, request.alignment) - piece->address; skipped != 0) {
    Piece& rest = cut(*piece, skipped);
    link(*piece);
    piece = &rest;
  }
  if (piece->bytes > bytes) link(cut(*piece, bytes));
  clear_stamp(*piece);
  piece->shelf = taker;
  piece->requested_bytes = request.bytes;
  piece->alignment_log = static_cast<uint8_t>(std::countr_zero(request.alignment));
  piece->use = request.use;
  Piece** at = place_of(piece->address);
  piece->next = std::exchange(*at, piece);
  ++live_count_;
  return reinterpret_cast<void*>(piece->address);
}

Arena::Piece** Arena::find_block(const void* data, const Request& request, Return& answer) const noexcept {
  Piece** at = find_live(data);
  answer = Return::unknown;
  if (at == nullptr || *at == nullptr || (*at)->use != request.use) return nullptr;
  answer = Return::different;
  if (!has_request(**at, request)) return nullptr;
  answer = Return::done;
  return at;
}

Return Arena::change_use(const void* data, const Request& request, BlockUse use) noexcept {
  Return answer{};
  if (Piece** at = find_block(data, request, answer)) (*at)->use = use;
  return answer;
}

Arena::Piece* Arena::end_block(const void* data, const Request& request, Return& answer) noexcept {
  Piece** at = find_block(data, request, answer);
  if (at == nullptr) return nullptr;
  Piece* piece = *at;
  *at = piece->next;
  --live_count_;
  return piece;
}

Return Arena::abandon(const void* data, const Request& request) noexcept {
  Return answer{};
  end_block(data, request, answer);
  return answer;
}

bool Arena::may_merge(const Piece* neighbour, const Piece& piece) noexcept {
  return neighbour != nullptr && neighbour->is_free && neighbour->shelf == piece.shelf &&
         (piece.shelf != Stamp::kPoints || neighbour->points == piece.points);
}

Return Arena::give(const void* data, const Request& request, const Stamp& stamp) noexcept {
  Return answer{};
  Piece* piece = end_block(data, request, answer);
  if (piece == nullptr) return answer;
  set_stamp(*piece, stamp);
  if (may_merge(piece->higher, *piece)) {
    unlink(*piece->higher);
    absorb(*piece, *piece->higher);
  }
  if (may_merge(piece->lower, *piece)) {
    Piece* lower = piece->lower;
    unlink(*lower);
    absorb(*lower, *piece);
    piece = lower;
  }
  link(*piece);
  return answer;
}

Arena::Run Arena::find_run(const Request& request) const noexcept {
  const uint64_t bytes = needed(request.bytes);
  const auto fits = [&](uint64_t from, uint64_t end) {
    const uint64_t first = round_up(from, request.alignment);
    return first <= end && bytes <= end - first;
  };
  for (const Span* span = spans_; span != nullptr && bytes != 0; span = span->next) {
    Piece* first = nullptr;
    for (Piece* piece = span->first; piece != nullptr; piece = piece->higher) {
      if (!piece->is_free) {
        first = nullptr;
        continue;
      }
      if (first == nullptr) first = piece;
      const uint64_t end = piece->address + piece->bytes;
      while (first != piece && fits(first->address + first->bytes, end))
        first = first->higher;  // no more of them than it takes
      if (fits(first->address, end)) return {first, piece};
    }
  }
  return {};
}

void Arena::join(const Run& run, const Stamp& stamp) noexcept {
  for (Piece* piece = run.first;; piece = piece->higher) {
    unlink(*piece);
    clear_stamp(*piece);
    piece->position = 0;
    if (piece == run.last) break;
  }
  bool is_whole = run.first == run.last;
  while (!is_whole) {
    is_whole = run.first->higher == run.last;
    absorb(*run.first, *run.first->higher);
  }
  set_stamp(*run.first, stamp);
  link(*run.first);
}

Arena::Span* Arena::find_free_span(uint64_t keep_bytes, uint64_t round) const noexcept {
  for (Span* span = spans_; span != nullptr; span = span->next) {
    uint64_t bytes = 0;
    const Piece* piece = span->first;
    for (; piece != nullptr && piece->is_free; piece = piece->higher) bytes += piece->bytes;
    const bool is_free = piece == nullptr && span->back_in < round;
    if (is_free && free_bytes_ >= keep_bytes && free_bytes_ - keep_bytes >= bytes) return span;
  }
  return nullptr;
}

Arena::Run Arena::detach(Span& span) noexcept {
  for (Piece* piece = span.first; piece != nullptr; piece = piece->higher) unlink(*piece);
  Span** at = &spans_;
  while (*at != &span) at = &(*at)->next;
  *at = span.next;
  return {span.first, nullptr};
}

void Arena::end(Span& span) noexcept {
  for (Piece* piece = span.first; piece != nullptr;) end_piece(*std::exchange(piece, piece->higher));
  delete &span;
  table_bytes_.subtract(sizeof(Span));
}

void Arena::come_back(Span& span, uint64_t round) noexcept {
  for (Piece* piece = span.first; piece != nullptr; piece = piece->higher) link(*piece);
  span.next = std::exchange(spans_, &span);
  span.back_in = round;
}

Stamp Arena::next_stamp(Run& pieces) const noexcept {
  const Piece& first = *pieces.first;
  pieces.first = pieces.first == pieces.last ? nullptr : first.higher;
  return stamp_of(first);
}

bool Arena::reserve_pieces(size_t count) noexcept {
  if (unused_count_ >= count) return true;
  auto* slab = new (std::nothrow) Slab{{}, slabs_};
  if (slab == nullptr) return false;
  slabs_ = slab;
  table_bytes_.add(sizeof(Slab));
  for (Piece& piece : slab->pieces) end_piece(piece);
  return true;
}

}  // namespace kina
