// The storages that views and aliases of the caller's memory share, found by what they look at.
#include <map>
#include <tuple>

#include "impl/core/device.h"
#include "impl/core/mutex.h"
#include "impl/core/storage.h"

namespace kina {
namespace {

using Key = std::tuple<const Device*, void*, uint64_t>;  // device, first byte, size

// The entry of one storage, from its first view to its last hold.
struct Entry {
  Key key;
  Storage* storage = nullptr;
};

struct Registry {
  Mutex mutex;
  std::map<Key, Entry*> entries;
};

Registry& registry() {
  static auto& made = *new Registry;
  return made;
}

// Called when the last hold is gone. A newer storage may have taken the place of this one in the meantime.
void forget(void* context) {
  const std::unique_ptr<Entry> entry(static_cast<Entry*>(context));
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto found = known.entries.find(entry->key);
  if (found != known.entries.end() && found->second == entry.get()) known.entries.erase(found);
}

}  // namespace

Hold hold_borrowed(Device& device, void* data, uint64_t bytes, Stream& stream) {
  auto entry = std::make_unique<Entry>(Entry{{&device, data, bytes}, nullptr});
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto found = known.entries.find(entry->key);
  if (found != known.entries.end())
    if (Hold shared = found->second->storage->try_hold()) return shared;
  std::map<Key, Entry*> made{{entry->key, entry.get()}};  // its room comes first: a storage that there is has its entry
  Hold storage = Storage::foreign(device, data, bytes, StorageOrigin::borrowed, stream);
  storage->own({&forget, entry.get()}, nullptr);
  entry->storage = storage.get();
  if (found != known.entries.end()) {
    found->second = entry.get();
  } else {
    known.entries.merge(made);
  }
  (void)entry.release();  // `forget` ends it
  return storage;
}

}  // namespace kina
