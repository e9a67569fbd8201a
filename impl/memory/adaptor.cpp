// The numbers of adaptors, and the way of a block through one of them.
#include "impl/memory/adaptor.h"

#include <string>
#include <vector>

#include "impl/core/error.h"
#include "impl/core/lasting.h"
#include "impl/core/mutex.h"

namespace kina {
namespace {

// Each is of one adaptor at a time: its callers' blocks keep the adaptor, so that none is left when the number goes on
// to the next one.
class Numbers {
 public:
  BlockUse take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      require<Message::out_of_handles>(next_ <= kLastUse, "KINA-STATUS-44", {});
      if (free_.capacity() <= next_) free_.reserve(size_t{2} * next_);  // room for all: giving one back needs none
      return static_cast<BlockUse>(next_++);
    }
    const BlockUse number = free_.back();
    free_.pop_back();
    return number;
  }
  void give(BlockUse number) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(number);
  }

 private:
  Mutex mutex_{Mutex::Place::inner};
  uint32_t next_ = static_cast<uint32_t>(BlockUse::adaptor);
  std::vector<BlockUse> free_;
};

Numbers& numbers() noexcept {
  static Lasting<Numbers> all;
  return *all;
}

}  // namespace

AdaptorResource::AdaptorResource(const char* word, const Ref<Resource>& upstream)
    : Resource(upstream->device(), upstream, std::string(word) + "(" + upstream->name() + ")", upstream->alignment()),
      use_of_callers_(numbers().take()) {}

AdaptorResource::~AdaptorResource() { numbers().give(use_of_callers_); }

Allocation AdaptorResource::do_take(const Request& request, Stream& stream) noexcept {
  return upstream()->take(passed(request), stream);
}

// What a caller gives back has to be a block of it. It is over for the caller before this resource says so, and goes
// back after that: as soon as upstream has it, another thread may be given it.
Return AdaptorResource::do_give_after(std::span<const Point> uses, void* data, const Request& request,
                                      Stream& stream) noexcept {
  Request back = passed(request);
  if (request.use == BlockUse::raw) {
    const Return answer = upstream()->change_use(data, back, BlockUse::ending);
    if (answer != Return::done) return answer;
    back.use = BlockUse::ending;
  }
  count_given(request);
  note_given(data, request, stream);
  if (upstream()->give(data, back, stream, uses) != Return::done) count_leaked(request.bytes);
  return Return::done;
}

// It leaks all the way down: nothing below waits for it to come back.
void AdaptorResource::leak(void* data, uint64_t bytes, uint64_t alignment) noexcept {
  if (data == nullptr) return;
  count_unasked();
  Resource::leak(data, bytes, alignment);
  upstream()->leak(data, bytes, alignment);
}

void AdaptorResource::describe(KinaResourceInfo& info) const noexcept {
  Resource::describe(info);
  info.metadata_bytes = sizeof(*this);
  info.upstream_calls =
      info.allocations + info.deallocations + info.failures - unasked_.load(std::memory_order_relaxed);
}

}  // namespace kina
