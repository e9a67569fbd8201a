// What recorded work does to the bytes of one storage, until a replay of it is declared.
#pragma once

#include <map>
#include <vector>

#include "impl/core/check.h"
#include "impl/core/findings.h"

namespace kina {

// The bytes of one storage that depend on recorded checks. May be used by many threads.
class Recording {
 public:
  // How much of what the replays of one recorded operation met is known to one storage.
  class Collected final : public Counted {
   public:
    explicit Collected(const Ref<Check>& recorded);
    const Ref<Check> recorded;
    Finding* const seen;
    Point newest;  // the work that brought `seen` up to date

   private:
    ~Collected() override;
  };

  // The checks that the bytes under `runs` depend on.
  void hand_on(const Runs& runs, Doubts& doubts);
  // Adds what `write` of the same runs will claim beside `doubts`, and promises room for it: others record on the
  // storage meanwhile. What other captures write is not undone, because their graphs may be replayed after this one's.
  [[nodiscard]] size_t prepare_write(const Runs& runs, Doubts& doubts, uint64_t capture);
  void write(const Runs& runs, const Ref<Doubt>& doubt, size_t promised) noexcept;
  void take_back(size_t promised) noexcept;

  std::vector<ClaimedRange<Doubt>> ranges();
  // Throws OUT_OF_MEMORY.
  Ref<Collected> collected(const Ref<Check>& recorded);

 private:
  Mutex& mutex() const noexcept { return shared_mutex_of(this); }

  Ranges<Doubt> ranges_;
  std::vector<Ref<Collected>> collected_;
};

// Work that collects what replays met, and the check of each recorded one that it fills in.
class Replays {
 public:
  Replays(Recording& recording, const std::vector<ClaimedRange<Doubt>>& ranges, Stream& stream);
  const Ref<Check>& check_of(const Check& recorded) const { return checks_.at(recorded.number()).now; }
  // Throws what a launch throws. Some of the work may be under way then.
  void launch(const char* function);
  // Once it was launched, or came to no end.
  void note() noexcept;

 private:
  struct One {
    Ref<Recording::Collected> collected;
    Ref<Check> now;
  };
  Stream& stream_;
  std::map<uint64_t, One> checks_;  // by the age of the recorded one
};

}  // namespace kina
