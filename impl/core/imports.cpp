// Names of native streams, what they serve, and objects that are used again.
#include "impl/core/imports.h"

#include <algorithm>

#include "impl/core/capture.h"
#include "impl/core/device.h"

namespace kina {
namespace {

// Nothing of what was on it can still be running, and no storage will ask for its order.
bool is_unused(Stream& stream) noexcept {
  if (!stream.timeline.has_ended.load(std::memory_order_acquire) || stream.has_storages()) return false;
  OrderCalls none;  // its event is there
  return is_seen_over(last_of(stream), none);
}

}  // namespace

Imports::Import* Imports::find(const Stream& stream) noexcept {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Import& each) { return each.stream == &stream; });
  return found == all_.end() ? nullptr : &*found;
}

Imports::Import& Imports::find_or_make_unused() {
  const auto unused = std::find_if(all_.begin(), all_.end(),
                                   [](const Import& each) { return !each.is_open() && is_unused(*each.stream); });
  if (unused != all_.end()) return *unused;
  if (all_.size() == all_.capacity()) all_.reserve(2 * all_.size() + 8);
  return all_.emplace_back(Import{new Stream(device_, nullptr, StreamOrigin::imported)});
}

Stream& Imports::add(NativeStream native) {
  const auto open = std::find_if(all_.begin(), all_.end(),
                                 [&](const Import& each) { return each.is_open() && each.stream->native() == native; });
  Import& import = open == all_.end() ? find_or_make_unused() : *open;
  Stream& stream = *import.stream;
  if (import.names == 0) {
    const uint64_t name = streams().insert(&stream);  // nothing fails from here on
    if (!import.is_open()) stream.stand_for(native);
    stream.handle = name;
    stream.reopen();
  }
  ++import.names;
  return stream;
}

Stream::Ending Imports::remove(Stream& stream, uint64_t handle, Argument argument) {
  Import* import = find(stream);
  require<Message::stream_not_imported>(import != nullptr, "KINA-STREAM-15", argument, argument.name);
  require<Message::stale_handle>(stream.handle == handle && import->names != 0, "KINA-STATUS-26", argument,
                                 argument.name, word_of(Kind::stream));
  if (import->names == 1) {
    require<Message::stream_in_use>(!captures(stream), "KINA-STREAM-50", argument, argument.name);
    if (stream.end() == Stream::Ending::is_bound) return Stream::Ending::is_bound;
    streams().remove(handle);
  }
  --import->names;
  const bool is_serving = import->services != 0 && !is_dropped(Site::here(), SiteKind::pin);
  if (import->names == 0 && !is_serving) note_end(stream);
  return Stream::Ending::ended;
}

void Imports::begin_service(Stream& stream) {
  Import& import = *find(stream);
  require<Message::stale_handle>(import.is_open(), "KINA-STATUS-26", {3, "params.stream"}, "params.stream",
                                 word_of(Kind::stream));
  ++import.services;
}

void Imports::end_service(Stream& stream) noexcept {
  Import& import = *find(stream);
  --import.services;
  if (!import.is_open()) note_end(stream);
}

void Imports::append_to(std::vector<Ref<Stream>>& streams) const {
  for (const Import& import : all_)
    if (!is_lost_sight_of(*import.stream)) streams.push_back(Ref<Stream>::share(import.stream));
}

void Service::begin(Stream& stream) { stream.device().begin_service(stream); }

void Service::end(Stream& stream) noexcept { stream.device().end_service(stream); }

}  // namespace kina
