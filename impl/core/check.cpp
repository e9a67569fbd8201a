// Checks that wait for what devices find, and the sets of them that bytes depend on.
#include "impl/core/check.h"

#include <algorithm>

#include "impl/core/capture.h"
#include "impl/core/device.h"
#include "impl/core/findings.h"
#include "impl/core/lasting.h"

namespace kina {
namespace {

// Where bytes would depend on more checks than this, those that are over are looked for.
constexpr size_t kManyChecks = 64;

}  // namespace

// The checks that are enqueued and neither fine nor shown, the oldest first.
class OpenChecks {
 public:
  static OpenChecks& instance() noexcept {
    static Lasting<OpenChecks> made;
    return *made;
  }

  void add(Check& check) noexcept {
    const std::lock_guard lock(mutex_);
    check.number_ = ++newest_number_;
    check.older_ = newest_;
    (newest_ == nullptr ? oldest_ : newest_->newer_) = &check;
    newest_ = &check;
  }

  void remove(Check& check) noexcept {
    const std::lock_guard lock(mutex_);
    if (check.older_ == nullptr && oldest_ != &check) return;  // it was removed before
    (check.older_ == nullptr ? oldest_ : check.older_->newer_) = check.newer_;
    (check.newer_ == nullptr ? newest_ : check.newer_->older_) = check.older_;
    check.older_ = check.newer_ = nullptr;
  }

  uint64_t next_number() noexcept {
    const std::lock_guard lock(mutex_);
    return ++newest_number_;
  }

  // The oldest one behind `number` that runs before what is enqueued on `stream` from now on.
  Ref<Check> next_before(const Stream& stream, uint64_t number) {
    const std::lock_guard lock(mutex_);
    for (Check* check = oldest_; check != nullptr; check = check->newer_)
      if (check->number_ > number && is_ordered(stream, check->point_))
        if (Ref<Check> found = Ref<Check>::try_share(check)) return found;
    return {};
  }

 private:
  Mutex mutex_;
  uint64_t newest_number_ = 0;
  Check* oldest_ = nullptr;
  Check* newest_ = nullptr;
};

Ref<Check> Check::make(const char* function, Stream& stream, int64_t extent) {
  return Ref<Check>::adopt(new Check(function, stream, extent));
}

Check::Check(const char* function, Stream& stream, int64_t extent)
    : function_(function),
      extent_(extent),
      finding_(Findings::of(stream.device().backend()).take()),
      point_{&stream, 0} {}

Ref<Check> Check::for_replays(const Ref<Check>& recorded, Stream& stream) {
  Ref<Check> made = make(recorded->function_, stream, recorded->extent_);
  made->recorded_ = recorded;
  return made;
}

Check::~Check() {
  Findings& findings = Findings::of(point_.stream->device().backend());
  if (!is_enqueued_) {
    findings.put_back(finding_);
    return;
  }
  OpenChecks::instance().remove(*this);
  findings.retire(finding_, point_);
}

void Check::enqueued(const Point& point) noexcept {
  if (is_enqueued_) return;
  point_ = point;
  is_enqueued_ = true;
  OpenChecks::instance().add(*this);
}

void Check::record(uint64_t capture) {
  capture_ = capture;
  number_ = OpenChecks::instance().next_number();
  const auto end = [](void* check) noexcept { Ref<Check>::adopt(static_cast<Check*>(check))->note_end_of_graph(); };
  const Stream& stream = *point_.stream;
  stream.device().backend().keep_with_graph(stream.native(), Ref<Check>::share(this).detach(), end);
}

void Check::note_end_of_graph() noexcept {
  if (finding_->runs == 0) state_.store(State::fine, std::memory_order_release);
}

// What is known stays known, except that a failure is shown.
void Check::settle(State found) noexcept {
  State known = state_.load(std::memory_order_acquire);
  while (known != State::fine && known != State::shown &&
         !state_.compare_exchange_weak(known, found, std::memory_order_acq_rel)) {
  }
  if (found != State::failed) OpenChecks::instance().remove(*this);
}

bool Check::has_failed(void (*wait)(const Point&, Site)) {
  const State known = state_.load(std::memory_order_acquire);
  if (known != State::open) return known != State::fine;
  try {
    wait(point_, Site::here());
  } catch (const Error& error) {
    if (error.status != KINA_ERROR_DEVICE_LOST) throw;
    is_lost_.store(true, std::memory_order_release);
  }
  return settle_by_finding();
}

bool Check::is_over() noexcept {
  if (state_.load(std::memory_order_acquire) != State::open) return true;
  OrderCalls calls;
  if (!is_seen_over(point_, calls)) return false;
  settle_by_finding();
  return true;
}

// The work is over, or lost.
bool Check::settle_by_finding() noexcept {
  const bool is_found = is_lost_.load(std::memory_order_acquire) || finding_->runs != 0;
  settle(is_found ? State::failed : State::fine);
  return is_found;
}

void Check::show() {
  if (has_failed()) settle(State::shown);
}

void Check::show_surely() {
  if (has_failed(&wait_surely)) settle(State::shown);
}

Error Check::error() const {
  const Device& device = point_.stream->device();
  if (is_lost_.load(std::memory_order_acquire))
    return make_error<Message::device_lost>("KINA-DEVICE-21", {}, device.name());
  return make_error<Message::index_out_of_range>("KINA-INDEXING-8", {3, "indices"}, finding_->value, extent_);
}

Ref<Failure> Check::failure() {
  Check& root = recorded_ ? *recorded_ : *this;
  const std::lock_guard lock(shared_mutex_of(&root));
  if (failure_) return failure_;
  const int64_t run = finding_->runs;
  if (!root.failure_ || root.failed_run_ != run) {
    const Error found = error();
    root.failure_ = Failure::make(found.status, function_, found.text);
    root.failed_run_ = run;
  }
  return failure_ = root.failure_;
}

void show_checks(Stream& stream) {
  if (!stream.device().backend().is_asynchronous()) return;
  uint64_t number = 0;
  while (const Ref<Check> check = OpenChecks::instance().next_before(stream, number)) {
    number = check->number();
    if (!may_capture(check->stream())) check->show();  // else it cannot be asked now
  }
}

Doubt::Verdict Doubt::judge(Look look) const noexcept {
  using enum Verdict::Kind;
  const Entry* open = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.check->is_fine()) continue;
    if (entry.check->is_shown()) return open == nullptr ? Verdict{failed, &entry} : Verdict{hidden, open};
    if (open == nullptr) open = &entry;
    if (look == Look::all) return {hidden, open};
  }
  return {open == nullptr ? fine : pending};
}

void Doubts::hand_on(const Doubt& read) {
  for (const Doubt::Entry& entry : read.entries()) add({entry.check, entry.way.after(function_)});
}

void Doubts::keep(const Doubt& beside) {
  for (const Doubt::Entry& entry : beside.entries()) add(entry);
}

void Doubts::keep_others(const Doubt& beside, uint64_t capture) {
  for (const Doubt::Entry& entry : beside.entries())
    if (entry.check->capture() != capture) add(entry);
}

void Doubts::raise(const Ref<Check>& check, const Chain& way) {
  if (!doubt_) doubt_ = make_counted<Doubt>();
  doubt_->entries_.push_back({check, way});
}

// By age, each check once. The operation's own has no number yet and stays the last.
void Doubts::add(Doubt::Entry entry) {
  if (entry.check->is_fine()) return;
  if (!doubt_) doubt_ = make_counted<Doubt>();
  std::vector<Doubt::Entry>& entries = doubt_->entries_;
  const auto place = std::lower_bound(
      entries.begin(), entries.end(), entry.check->number(),
      [](const Doubt::Entry& candidate, uint64_t number) { return candidate.check->number() - 1 < number - 1; });
  if (place != entries.end() && place->check.get() == entry.check.get()) return;
  entries.insert(place, std::move(entry));
}

void Doubts::drop_what_is_over() noexcept {
  if (!doubt_ || doubt_->entries_.size() <= kManyChecks) return;
  std::vector<Doubt::Entry>& entries = doubt_->entries_;
  const Stream* late = nullptr;  // what it has been asked to do is not over from here on
  auto kept = entries.begin();
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
    Check& check = *entry->check;
    const bool is_open = &check.stream() == late || !check.is_over();
    if (is_open) late = &check.stream();
    if (check.is_fine()) continue;
    if (kept != entry) *kept = std::move(*entry);
    ++kept;
    if (!is_open) break;  // it failed: no other behind it can be the root
  }
  entries.erase(kept, entries.end());
  if (entries.empty()) doubt_ = {};
}

}  // namespace kina
