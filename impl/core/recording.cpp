// Recorded checks by byte, and how a replay becomes checks of its own.
#include "impl/core/recording.h"

#include <algorithm>
#include <iterator>

#include "impl/core/device.h"
#include "impl/core/operation.h"

namespace kina {

Recording::Collected::Collected(const Ref<Check>& check)
    : recorded(check), seen(Findings::of(check->stream().device().backend()).take()) {}

Recording::Collected::~Collected() {
  Findings& findings = Findings::of(recorded->stream().device().backend());
  newest.stream ? findings.retire(seen, newest, recorded) : findings.put_back(seen);
}

void Recording::hand_on(const Runs& runs, Doubts& doubts) {
  const std::lock_guard lock(mutex());
  for (const Ref<Doubt>& read : ranges_.under(runs)) doubts.hand_on(*read);
}

size_t Recording::prepare_write(const Runs& runs, Doubts& doubts, uint64_t capture) {
  const std::lock_guard lock(mutex());
  if (runs.count() > kExactRuns) {
    for (const Ref<Doubt>& beside : ranges_.under(Runs(runs.first, runs.last()))) doubts.keep(*beside);
  } else {
    for (const Ref<Doubt>& before : ranges_.under(runs)) doubts.keep_others(*before, capture);
  }
  return ranges_.promise_room(runs);
}

void Recording::write(const Runs& runs, const Ref<Doubt>& doubt, size_t promised) noexcept {
  const std::lock_guard lock(mutex());
  if (doubt) return ranges_.mark(runs, doubt, promised);
  ranges_.take_back(promised);
  ranges_.clear_what_can_be(runs);
}

void Recording::take_back(size_t promised) noexcept {
  const std::lock_guard lock(mutex());
  ranges_.take_back(promised);
}

std::vector<ClaimedRange<Doubt>> Recording::ranges() {
  const std::lock_guard lock(mutex());
  return {ranges_.begin(), ranges_.end()};
}

Ref<Recording::Collected> Recording::collected(const Ref<Check>& recorded) {
  {
    const std::lock_guard lock(mutex());
    for (const Ref<Collected>& known : collected_)
      if (known->recorded.get() == recorded.get()) return known;
  }
  const auto made = make_counted<Collected>(recorded);  // may ask a device
  std::vector<Ref<Collected>> over;
  const std::lock_guard lock(mutex());
  over.reserve(collected_.size());
  const auto is_open = [](const Ref<Collected>& each) { return !each->recorded->is_fine(); };
  const auto first_over = std::partition(collected_.begin(), collected_.end(), is_open);
  std::move(first_over, collected_.end(), std::back_inserter(over));
  collected_.erase(first_over, collected_.end());
  return collected_.emplace_back(made);
}

Replays::Replays(Recording& recording, const std::vector<ClaimedRange<Doubt>>& ranges, Stream& stream)
    : stream_(stream) {
  for (const ClaimedRange<Doubt>& range : ranges)
    for (const Doubt::Entry& entry : range.claim->entries()) {
      One& one = checks_[entry.check->number()];
      if (!one.collected) one = {recording.collected(entry.check), Check::for_replays(entry.check, stream)};
    }
}

void Replays::launch(const char* function) {
  std::vector<CollectArgs> pieces;
  for (const auto& [age, one] : checks_)
    pieces.push_back({one.now->finding(), one.collected->recorded->finding(), one.collected->seen});
  kina::launch(function, stream_, stream_.device().backend().collect(), std::span<const CollectArgs>(pieces), {});
}

void Replays::note() noexcept {
  const Point work = now(stream_);
  for (auto& [age, one] : checks_) {
    one.now->enqueued(work);
    one.collected->newest = work;
  }
}

}  // namespace kina
