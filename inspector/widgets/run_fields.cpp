// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/run_fields.h"

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {

void draw_run_fields(const Surface& ui, const TraceModel& model, ViewState& state,
                     RunFields which) {
  const analysis::RunFigures& figures = model.figures();
  const TraceRun& run = model.run();
  const bool all = which == RunFields::all;
  const auto show = [&](const char* name, const std::string& value) {
    field(ui, state, "run", name, value);
  };
  heading(ui, "Run");
  show("Step, median", format_time(figures.step_time_steady));
  if (figures.tokens_per_s_per_gpu) {
    show("Tokens/s per rank",
         format_count(static_cast<std::int64_t>(*figures.tokens_per_s_per_gpu)));
  }
  if (figures.mfu) show("MFU", format_percent(*figures.mfu));
  show("Exposed communication", format_percent(figures.shares.exposed_share()) + " of step");
  if (all) show("Hidden by compute", format_percent(figures.shares.overlapped_share()));
  const std::string capacity =
      run.memory_per_rank > Bytes{0} ? " of " + format_memory(run.memory_per_rank) : "";
  const bool known = figures.peak_reserved > Bytes{0};
  show("Peak reserved", known ? format_memory(figures.peak_reserved) + capacity : "not known");
  if (run.parameters > 0 && all) show("Parameters", format_count(run.parameters));
}

}  // namespace tessera::inspector
