// Cutting, finding and merging pieces.
#include "impl/memory/arena.h"

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
  delete_list(spans_);
  delete_list(slabs_);
}

Arena::Bin Arena::bin_of(uint64_t granules) noexcept {
  if (granules < kBinsPerLevel) return {0, static_cast<uint32_t>(granules)};
  const auto log = static_cast<uint32_t>(63 - std::countl_zero(granules));
  return {log - 2, static_cast<uint32_t>(granules >> (log - 3) & 7)};
}

bool Arena::next_bin(Bin from, Bin& found) const noexcept {
  if (from.level >= kLevels) return false;
  const uint32_t here = bins_[from.level] & (0xFFU << from.index);
  if (here != 0) {
    found = {from.level, static_cast<uint32_t>(std::countr_zero(here))};
    return true;
  }
  const uint64_t above = levels_ & (~uint64_t{0} << from.level << 1);
  if (above == 0) return false;
  const auto level = static_cast<uint32_t>(std::countr_zero(above));
  found = {level, static_cast<uint32_t>(std::countr_zero(uint32_t{bins_[level]}))};
  return true;
}

uint64_t Arena::needed(const Request& request) const noexcept {
  if (request.bytes > ~uint64_t{0} - granule_) return 0;
  return round_up(request.bytes, granule_);
}

Arena::Piece* Arena::first_fit(Bin bin, uint64_t bytes, uint64_t alignment) const noexcept {
  for (Piece* piece = heads_[bin.level][bin.index]; piece != nullptr; piece = piece->next) {
    const uint64_t skipped = round_up(piece->address, alignment) - piece->address;
    if (piece->bytes >= bytes && piece->bytes - bytes >= skipped) return piece;
  }
  return nullptr;
}

Arena::Piece* Arena::find(uint64_t bytes, uint64_t alignment) const noexcept {
  // Rounded up to a bin's lower bound every piece of the bin, and of all above, is large enough: bounded steps.
  const uint64_t slack = alignment > granule_ ? alignment - granule_ : 0;
  const uint64_t least = bytes / granule_;
  Bin found{};
  if (bytes <= ~uint64_t{0} - slack) {
    uint64_t granules = (bytes + slack) / granule_;
    if (granules >= kBinsPerLevel) granules += (uint64_t{1} << (60 - std::countl_zero(granules))) - 1;
    if (next_bin(bin_of(granules), found)) return heads_[found.level][found.index];
  }
  // Nothing is sure to be large enough. Before the pool grows, look at what may be.
  for (Bin bin = bin_of(least); next_bin(bin, found);) {
    if (Piece* piece = first_fit(found, bytes, alignment)) return piece;
    if (slack == 0) return nullptr;  // all bins above were seen to be empty
    bin = found.index + 1 < kBinsPerLevel ? Bin{found.level, found.index + 1} : Bin{found.level + 1, 0};
  }
  return nullptr;
}

bool Arena::add(const ArenaSpan& span) noexcept {
  const uint64_t bytes = span.bytes / granule_ * granule_;
  if (!reserve_pieces(1)) return false;
  auto* added = new (std::nothrow) Span{span, nullptr, spans_};
  if (added == nullptr) return false;
  spans_ = added;
  table_bytes_ += sizeof(Span);
  if (bytes == 0) return true;
  Piece& piece = new_piece();
  piece.address = reinterpret_cast<uint64_t>(span.base);
  piece.bytes = bytes;
  added->first = &piece;
  link(piece);
  return true;
}

void* Arena::take(const Request& request) noexcept {
  const uint64_t bytes = needed(request);
  if (bytes == 0 || !reserve_pieces(2) || !live_.reserve_one()) return nullptr;
  Piece* piece = find(bytes, request.alignment);
  if (piece == nullptr) return nullptr;
  unlink(*piece);
  if (const uint64_t skipped = round_up(piece->address, request.alignment) - piece->address; skipped != 0) {
    Piece& rest = cut(*piece, skipped);
    link(*piece);
    piece = &rest;
  }
  if (piece->bytes > bytes) link(cut(*piece, bytes));
  piece->request = request;
  live_.insert(piece->address, piece);
  return reinterpret_cast<void*>(piece->address);
}

Return Arena::give(const void* data, const Request& request, Fate fate) noexcept {
  Piece** entry = live_.find(reinterpret_cast<uint64_t>(data));
  if (entry == nullptr || (*entry)->request.use != request.use) return Return::unknown;
  if ((*entry)->request != request) return Return::different;
  Piece* piece = *entry;
  live_.remove(entry);
  if (fate == Fate::abandon) return Return::done;
  if (piece->higher != nullptr && piece->higher->is_free) {
    unlink(*piece->higher);
    join(*piece, *piece->higher);
  }
  if (piece->lower != nullptr && piece->lower->is_free) {
    Piece* lower = piece->lower;
    unlink(*lower);
    join(*lower, *piece);
    piece = lower;
  }
  link(*piece);
  return Return::done;
}

bool Arena::remove_free_span(uint64_t keep_bytes, ArenaSpan& removed) noexcept {
  for (Span** at = &spans_; *at != nullptr; at = &(*at)->next) {
    Piece* piece = (*at)->first;
    const uint64_t bytes = piece == nullptr ? 0 : piece->bytes;
    if (piece != nullptr && (!piece->is_free || piece->higher != nullptr)) continue;
    if (free_bytes_ < keep_bytes || free_bytes_ - keep_bytes < bytes) continue;
    removed = (*at)->memory;
    if (piece != nullptr) {
      unlink(*piece);
      end_piece(*piece);
    }
    delete std::exchange(*at, (*at)->next);
    table_bytes_ -= sizeof(Span);
    return true;
  }
  return false;
}

void Arena::link(Piece& piece) noexcept {
  const Bin bin = bin_of(piece.bytes / granule_);
  Piece*& head = heads_[bin.level][bin.index];
  piece.previous = nullptr;
  piece.next = head;
  if (head != nullptr) head->previous = &piece;
  head = &piece;
  piece.is_free = true;
  free_bytes_ += piece.bytes;
  levels_ |= uint64_t{1} << bin.level;
  bins_[bin.level] = static_cast<uint8_t>(bins_[bin.level] | 1U << bin.index);
}

void Arena::unlink(Piece& piece) noexcept {
  const Bin bin = bin_of(piece.bytes / granule_);
  Piece*& head = heads_[bin.level][bin.index];
  if (piece.next != nullptr) piece.next->previous = piece.previous;
  (piece.previous != nullptr ? piece.previous->next : head) = piece.next;
  piece.is_free = false;
  free_bytes_ -= piece.bytes;
  if (head != nullptr) return;
  bins_[bin.level] = static_cast<uint8_t>(bins_[bin.level] & ~(1U << bin.index));
  if (bins_[bin.level] == 0) levels_ &= ~(uint64_t{1} << bin.level);
}

Arena::Piece& Arena::cut(Piece& piece, uint64_t bytes) noexcept {
  Piece& rest = new_piece();
  rest.address = piece.address + bytes;
  rest.bytes = piece.bytes - bytes;
  rest.lower = &piece;
  rest.higher = piece.higher;
  if (rest.higher != nullptr) rest.higher->lower = &rest;
  piece.higher = &rest;
  piece.bytes = bytes;
  return rest;
}

void Arena::join(Piece& lower, Piece& higher) noexcept {
  lower.bytes += higher.bytes;
  lower.higher = higher.higher;
  if (higher.higher != nullptr) higher.higher->lower = &lower;
  end_piece(higher);
}

bool Arena::reserve_pieces(size_t count) noexcept {
  if (unused_count_ >= count) return true;
  auto* slab = new (std::nothrow) Slab{{}, slabs_};
  if (slab == nullptr) return false;
  slabs_ = slab;
  table_bytes_ += sizeof(Slab);
  for (Piece& piece : slab->pieces) end_piece(piece);
  return true;
}

Arena::Piece& Arena::new_piece() noexcept {
  Piece& piece = *std::exchange(unused_, unused_->next);
  --unused_count_;
  piece = Piece{};
  return piece;
}

void Arena::end_piece(Piece& piece) noexcept {
  piece.next = unused_;
  unused_ = &piece;
  ++unused_count_;
}

uint64_t Arena::metadata_bytes() const noexcept { return sizeof(*this) + live_.bytes() + table_bytes_; }

}  // namespace kina
