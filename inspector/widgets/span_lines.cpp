// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/span_lines.h"

#include <fmt/format.h>

#include "inspector/widgets/format.h"
#include "inspector/widgets/op_text.h"

namespace tessera::inspector {

SpanLines span_lines(TraceModel& model, const SpanRef& span) {
  const storage::OpRow& op = model.op(span.op);
  const analysis::SpanFacts facts = model.facts(span);
  SpanLines lines;
  lines.title = fmt::format("{}  {}", title_of(op), short_name(subject_of(op)));
  const std::string name = foreign_name(model.run(), op);
  if (!name.empty()) lines.place.push_back(name);
  lines.place.push_back(fmt::format("rank {}, step {}, {}", span.rank, op.step, name_of(op.phase)));
  if (op.reason != Reason::none) lines.place.emplace_back(name_of(op.reason));
  lines.figures.push_back(format_time(facts.duration));
  if (facts.collective) {
    lines.figures.push_back(fmt::format("{} {}, bus {}", format_bytes(op.bytes), name_of(op.dtype),
                                        format_rate(facts.bus_bandwidth)));
    lines.figures.push_back(fmt::format("wait {}, transfer {}, exposed {}", format_time(facts.wait),
                                        format_time(facts.transfer), format_time(facts.exposed)));
    if (facts.kernel > 0) {
      lines.figures.push_back(fmt::format("kernel {}, bus {}", format_time(facts.kernel),
                                          format_rate(facts.kernel_bus_bandwidth)));
    }
  } else if (facts.flops_per_s > 0) {
    lines.figures.push_back(format_flops(facts.flops_per_s) + "/s");
  }
  return lines;
}

}  // namespace tessera::inspector
