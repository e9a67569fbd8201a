// Failures and doubts of bytes, and how one becomes the other.
#include "impl/core/condition.h"

namespace kina {

void Condition::note_marks() noexcept {
  is_marked_.store(!failures_.is_empty() || !doubts_.is_empty(), std::memory_order_release);
}

// A doubt under `runs` about which something has to be done before its bytes can be told good or failed. Drops those
// that turned out fine.
Ref<Doubt> Condition::next_to_decide(const Runs& runs, Look look, Doubt::Verdict& verdict) noexcept {
  for (const auto* range = doubts_.begin(); range != doubts_.end();) {
    verdict = doubts_.touches(*range, runs) ? range->claim->judge(look) : Doubt::Verdict{Doubt::Verdict::Kind::pending};
    if (verdict.kind == Doubt::Verdict::Kind::fine) {
      doubts_.erase(range);  // the next one moves up
      continue;
    }
    if (verdict.kind != Doubt::Verdict::Kind::pending) return range->claim;
    ++range;
  }
  return {};
}

FailedRange Condition::failure_in(const Runs& runs, Look look) {
  for (;;) {
    Doubt::Verdict verdict{};
    Ref<Doubt> doubt;
    {
      const std::lock_guard lock(mutex());
      doubt = next_to_decide(runs, look, verdict);
      note_marks();
      if (!doubt) return failures_.lowest(runs);
    }
    if (verdict.kind == Doubt::Verdict::Kind::hidden) {
      verdict.entry->check->show();
      continue;
    }
    const auto claim = make_counted<Claim>(verdict.entry->check->failure(), verdict.entry->way);
    const std::lock_guard lock(mutex());
    for (const auto* range = doubts_.begin(); range != doubts_.end();) {
      if (range->claim.get() != doubt.get()) {
        ++range;
        continue;
      }
      failures_.mark(Runs(range->start, range->end), claim);
      doubts_.erase(range);
    }
  }
}

void Condition::mark(const Runs& runs, const Ref<Claim>& claim) {
  const std::lock_guard lock(mutex());
  failures_.mark(runs, claim);
  doubts_.clear_what_can_be(runs);
  note_marks();
}

void MarkRoom::give_back() noexcept {
  const size_t unused = use();
  if (of_ == Of::recorded_doubts) return condition_->recording_.take_back(unused);
  const std::lock_guard lock(condition_->mutex());
  of_ == Of::failures ? condition_->failures_.take_back(unused) : condition_->doubts_.take_back(unused);
}

MarkRoom Condition::promise_room(const Runs& runs) {
  const std::lock_guard lock(mutex());
  return {*this, MarkRoom::Of::failures, failures_.promise_room(Runs(runs.first, runs.last()))};
}

void Condition::mark(const Runs& runs, const Ref<Claim>& claim, size_t promised) noexcept {
  const std::lock_guard lock(mutex());
  failures_.mark(runs, claim, promised);
  doubts_.clear_what_can_be(runs);
  note_marks();
}

bool Condition::clear(const Runs& runs) {
  const std::lock_guard lock(mutex());
  failures_.make_room_to_clear(runs);
  const bool was_failed = failures_.clear(runs);
  doubts_.clear_what_can_be(runs);
  note_marks();
  return was_failed;
}

void Condition::write(const Runs& runs, const Ref<Doubt>& doubt, size_t promised) noexcept {
  const std::lock_guard lock(mutex());
  failures_.clear_what_can_be(runs);
  if (doubt) {
    doubts_.mark(runs, doubt, promised);
  } else {
    doubts_.take_back(promised);
    doubts_.clear_what_can_be(runs);
  }
  note_marks();
}

void Condition::hand_on(const Runs& runs, Doubts& doubts) {
  for (const Ref<Doubt>& read : doubts_under(runs)) doubts.hand_on(*read);
}

MarkRoom Condition::prepare_write(const Runs& runs, Doubts& doubts) {
  if (runs.count() > kExactRuns)
    for (const Ref<Doubt>& beside : doubts_under(Runs(runs.first, runs.last()))) doubts.keep(*beside);
  const std::lock_guard lock(mutex());
  return {*this, MarkRoom::Of::doubts, doubts_.promise_room(runs)};
}

// Copies: they are looked at under no lock.
std::vector<Ref<Doubt>> Condition::doubts_under(const Runs& runs) {
  const std::lock_guard lock(mutex());
  return doubts_.under(runs);
}

// A replay repairs nothing: its checks come to those that are there.
std::vector<ClaimedRange<Doubt>> Condition::with_replays(const Replays& replays,
                                                         const std::vector<ClaimedRange<Doubt>>& ranges) {
  std::vector<ClaimedRange<Doubt>> united;
  for (const auto& range : ranges) {
    std::unique_lock lock(mutex());
    const std::vector<ClaimedRange<Doubt>> pieces = doubts_.cut(range.start, range.end);
    lock.unlock();
    for (const auto& piece : pieces) {
      Doubts doubts(nullptr);
      if (piece.claim) doubts.keep(*piece.claim);
      doubts.drop_what_is_over();
      for (const Doubt::Entry& entry : range.claim->entries()) doubts.raise(replays.check_of(*entry.check), entry.way);
      united.push_back({piece.start, piece.end, doubts.result()});
    }
  }
  const std::lock_guard lock(mutex());
  doubts_.promise_room_for(united.size());
  return united;
}

void Condition::collect_replays(const char* function, Stream& stream) {
  const std::vector<ClaimedRange<Doubt>> ranges = recording_.ranges();
  if (ranges.empty()) return;
  Replays replays(recording_, ranges, stream);
  const std::vector<ClaimedRange<Doubt>> united = with_replays(replays, ranges);
  // Also after a launch that fails: a part of the work may be under way, and what never runs finds nothing.
  struct Marks {
    Condition& condition;
    Replays& replays;
    const std::vector<ClaimedRange<Doubt>>& united;
    ~Marks() {
      replays.note();
      const std::lock_guard lock(condition.mutex());
      for (const auto& piece : united)
        condition.doubts_.mark(Runs(piece.start, piece.end), piece.claim, Ranges<Doubt>::kRoomOfRun);
      condition.note_marks();
    }
  } const marks{*this, replays, united};
  replays.launch(function);
}

}  // namespace kina
