// SPDX-License-Identifier: Apache-2.0
// Questions to the trace in SQL: those of the manual as a list, and one's own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "inspector/console/query_job.h"
#include "inspector/console/questions.h"
#include "inspector/widgets/panel.h"

namespace tessera::inspector {

class ConsolePanel final : public Panel {
 public:
  /// A click on a question asks it of the opened rank and the step in view, a click on a row of
  /// the answer opens the timeline there.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) override;
  /// What was asked, and its answer, stay; the next question is asked of what there is then.
  bool renew(const TraceModel& model) override;

 private:
  void begin(const TraceModel& model, const ViewState& state);
  void ask(std::string sql);
  void take_answer(const Surface& ui, ViewState& state);
  void draw_questions(Surface& ui, const TraceModel& model, ViewState& state, const Box& box);
  float draw_editor(Surface& ui, ViewState& state, const Box& box, bool beside);
  std::string answer_text(const Surface& ui) const;
  void draw_answer(Surface& ui, TraceModel& model, ViewState& state, const Box& box);
  void draw_row(const Surface& ui, TraceModel& model, ViewState& state, std::size_t number,
                std::size_t columns);

  std::unique_ptr<QueryJob> job_;
  std::vector<char> text_;            // what is being written
  std::vector<std::string> history_;  // the latest first
  Answer answer_;
  int answers_ = 0;         // so that each gets widths of its own
  bool leads_ = false;      // rows have a place in the timeline
  bool questions_ = false;  // the list is in front, where there is no room beside
  std::string refusal_;     // why a row cannot be shown
};

}  // namespace tessera::inspector
