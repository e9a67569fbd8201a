// A machine that runs small programs of several threads in every order there is. What they store waits a while before
// others see it, and overtakes what was stored before, unless the store is a release: as processors and the language
// allow. Loads happen in the order of the program.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace kina::tests {

class FenceModel {
 public:
  static constexpr size_t kWords = 12;

  struct Store {
    size_t word;
    int value;
    bool is_release;
  };
  struct Thread {
    std::string answers;        // of what its program has done so far
    std::vector<Store> stores;  // that others do not see yet
  };
  struct State {
    std::array<int, kWords> words{};
    std::array<int, kWords> facts{};  // what is so at once, for the test alone
    std::vector<Thread> threads;
  };

  // What a program can do. It runs from the start for each step: up to there it is given the answers that it had.
  class At {
   public:
    int load(size_t word) {
      return act([=, this]() -> std::optional<int> {
        for (size_t i = me().stores.size(); i-- > 0;)
          if (me().stores[i].word == word) return me().stores[i].value;
        return state_.words[word];
      });
    }
    void store(size_t word, int value) { put({word, value, false}); }
    void release(size_t word, int value) { put({word, value, true}); }
    // Locked instructions: what the thread stored before is seen first.
    int add(size_t word, int more) {
      return act([=, this] { return when(me().stores.empty(), state_.words[word], more); });
    }
    int exchange(size_t word, int value) {
      return act([=, this] { return when(me().stores.empty(), state_.words[word], value - state_.words[word]); });
    }
    void lock(size_t word) {
      act([=, this] { return when(me().stores.empty() && state_.words[word] == 0, state_.words[word], 1); });
    }
    void unlock(size_t word) { release(word, 0); }
    // Waits until the word has that value.
    void await(size_t word, int value) {
      act([=, this] { return when(state_.words[word] == value && me().stores.empty(), state_.words[word], 0); });
    }
    // All that threads stored so far is seen: first the caller's, then one thread's after another's.
    void fence() {
      settle(me());
      for (Thread& thread : state_.threads) settle(thread);
    }
    // What is so from now on; returns what was.
    int fact(size_t which, int more) {
      return act([=, this] { return when(true, state_.facts[which], more); });
    }

   private:
    friend class FenceModel;
    struct Stop {};
    At(State& state, size_t thread) : state_(state), thread_(thread) {}
    Thread& me() { return state_.threads[thread_]; }
    static std::optional<int> when(bool may_be, int& place, int more) {
      if (!may_be) return std::nullopt;
      place += more;
      return place - more;
    }
    void put(const Store& made) {
      act([&]() -> std::optional<int> {
        me().stores.push_back(made);
        return 0;
      });
    }
    void settle(Thread& thread) {
      act([&]() -> std::optional<int> {
        while (!thread.stores.empty()) see(state_, thread, 0);
        return 0;
      });
    }
    template <class Action>
    int act(Action&& action) {
      if (next_ < me().answers.size()) return me().answers[next_++];
      const std::optional<int> answer = has_acted_ ? std::nullopt : action();
      if (!answer) throw Stop();
      me().answers.push_back(static_cast<char>(*answer));
      ++next_;
      has_acted_ = true;
      return *answer;
    }
    State& state_;
    const size_t thread_;
    size_t next_ = 0;
    bool has_acted_ = false;
  };
  using Program = std::function<void(At&)>;

  // Whether there is an order in which `is_wrong`, or in which a thread waits for ever.
  static bool has_wrong_order(const std::vector<Program>& programs, State start,
                              const std::function<bool(const State&, bool is_over)>& is_wrong) {
    start.threads.resize(programs.size());
    std::vector<State> open{start};
    std::unordered_set<std::string> known;
    while (!open.empty()) {
      const State state = std::move(open.back());
      open.pop_back();
      if (!known.insert(text_of(state)).second) continue;
      const size_t before = open.size();
      bool is_over = true;
      for (size_t t = 0; t < programs.size(); ++t) {
        add_seen(open, state, t);
        State after = state;
        At at(after, t);
        try {
          programs[t](at);
        } catch (const At::Stop&) {
          is_over = false;
        }
        if (at.has_acted_) open.push_back(std::move(after));
      }
      const bool is_last = open.size() == before;
      if (is_wrong(state, is_last && is_over) || (is_last && !is_over)) return true;
    }
    return false;
  }

 private:
  // What others may see next of a thread.
  static void add_seen(std::vector<State>& open, const State& state, size_t t) {
    const std::vector<Store>& stores = state.threads[t].stores;
    for (size_t i = 0; i < stores.size(); ++i) {
      bool is_next = i == 0 || !stores[i].is_release;
      for (size_t j = 0; j < i; ++j) is_next = is_next && stores[j].word != stores[i].word;
      if (!is_next) continue;
      open.push_back(state);
      see(open.back(), open.back().threads[t], i);
    }
  }
  static void see(State& state, Thread& thread, size_t index) {
    state.words[thread.stores[index].word] = thread.stores[index].value;
    thread.stores.erase(thread.stores.begin() + static_cast<ptrdiff_t>(index));
  }
  static std::string text_of(const State& state) {
    std::string text;
    for (const int value : state.words) text += static_cast<char>(value);
    for (const int value : state.facts) text += static_cast<char>(value);
    for (const Thread& thread : state.threads) {
      text += static_cast<char>(thread.answers.size());
      text += thread.answers;
      text += static_cast<char>(thread.stores.size());
      for (const Store& made : thread.stores)
        text += {static_cast<char>(made.word), static_cast<char>(made.value), static_cast<char>(made.is_release)};
    }
    return text;
  }
};

}  // namespace kina::tests
