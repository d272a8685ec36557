// SPDX-License-Identifier: Apache-2.0
// In what a moment of a host's thread lies: the unit whose parameters it works with, the pass, the
// reason, the step. Told by annotations of FSDP, DDP, the optimizer and the profiler, and by the
// calls of autograd.
//
// The idea: FSDP2 marks what it does before and after each unit's forward ("FSDP::pre_forward
// (layers.0)" ... "FSDP::post_forward (layers.0)"), so what lies between belongs to that unit, and
// what lies inside of a mark is the mark's.
#pragma once

#include <vector>

#include "exchange/formats/kineto_events.h"

namespace tessera::exchange {

struct KinetoContext {
  std::int64_t step = ImportedSpan::unknown_step;
  TextId unit = 0;
  Phase phase = Phase::none;
  Reason reason = Reason::none;  // of what computes or copies there
  Reason collective_reason = Reason::none;
  MemoryClass memory_class = MemoryClass::unknown;  // of what is allocated there
  bool inside_op = false;    // of another host operation: it began before this one and is not over
  bool holds_marks = false;  // the operation that begins there calls FSDP, and may wait in it
};

class KinetoContexts {
 public:
  KinetoContexts(const KinetoFile& file, ImportedRun& run);

  struct Question {
    Time time = 0;
    std::int32_t thread = 0;
    std::int64_t id = 0;  // the asker's
  };
  /// Calls answer(id, context) for each question, thread by thread.
  template <class Answer>
  void answer(std::vector<Question> questions, Answer each) const {
    sort(questions);
    std::size_t at = 0;
    while (at < questions.size()) {
      Sweep sweep(*this, questions[at].thread);
      const std::int32_t thread = questions[at].thread;
      for (; at < questions.size() && questions[at].thread == thread; ++at) {
        each(questions[at].id, sweep.at(questions[at].time));
      }
    }
  }

  /// Ascending; numbers are the profiler's, or counted where the ends of the optimizer's steps say.
  const std::vector<ImportedStep>& steps() const { return steps_; }
  /// The thread that runs the program; -1: none.
  std::int32_t main_thread() const { return main_; }
  /// Whether backward passes run there.
  bool runs_backward(std::int32_t thread) const;
  /// Which scheme the annotations speak of: "fully_shard", "full_shard", "replicate", "".
  const char* scheme() const { return scheme_; }

 private:
  /// What an annotation or an operation says of what is inside of it.
  struct Frame {
    Time begin = 0, end = 0;
    TextId unit = 0;
    bool has_unit = false;
    bool holds_marks = false;  // an operation with annotations of FSDP inside
    Phase phase = Phase::none;
    Reason reason = Reason::none, collective_reason = Reason::none;
    MemoryClass memory_class = MemoryClass::unknown;
    enum class Mark : std::uint8_t {
      none,
      operation,      // of the host
      enter_forward,  // from its end on the unit's forward
      leave_forward,
      enter_backward,
      leave_unit,  // from its end on the root's backward
      leave_backward
    } mark = Mark::none;
  };

  /// Goes through one thread in time.
  class Sweep {
   public:
    Sweep(const KinetoContexts& contexts, std::int32_t thread);
    KinetoContext at(Time time);

   private:
    void close_until(Time time);
    void close(const Frame& frame);

    const KinetoContexts& contexts_;
    const std::vector<Frame>& frames_;
    const bool main_;
    std::size_t next_ = 0;
    std::vector<Frame> open_;
    std::vector<TextId> forward_;  // units whose forward goes on, the innermost last
    TextId backward_ = 0;
    bool in_backward_ = false;
    std::int64_t step_ = ImportedSpan::unknown_step;
  };

  static void sort(std::vector<Question>& questions);
  void add(const KinetoEvent& event, ImportedRun& run);
  Frame frame_of(std::string_view name, ImportedRun& run);
  static void find_marks(std::vector<Frame>& frames);
  void find_steps(const KinetoFile& file, const ImportedRun& run);
  void find_main(const KinetoFile& file);
  std::int64_t step_at(Time time) const;
  bool before_backward(Time time) const;

  std::vector<std::vector<Frame>> frames_;  // by thread, by begin, outer ones first
  std::vector<ImportedStep> steps_;
  std::vector<Time> first_backward_;  // by step: its begin on any thread
  std::vector<bool> backward_threads_;
  std::int32_t main_ = -1;
  TextId root_ = 0;
  const char* scheme_ = "";
};

}  // namespace tessera::exchange
