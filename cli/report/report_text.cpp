// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/report/memory_unit.h"
#include "cli/report/recorded_part.h"
#include "cli/report/report.h"
#include "cli/report/run_table.h"
#include "cli/report/table.h"

namespace tessera::cli {
namespace {

using analysis::CommunicationKind;
using analysis::KernelSpread;
using analysis::RankMeans;
using analysis::StepTime;
using analysis::TimeShares;

constexpr std::size_t groups_max = 4;                                // columns of the memory table
constexpr std::size_t steps_max = 12;                                // rows of the table of steps
constexpr std::size_t path_operations_max = 6, path_others_max = 2;  // rows of a critical path

// "1,234.567"; by integers, so that every place rounds alike.
std::string milliseconds(Time time) {
  const std::int64_t microseconds = (time + (time < 0 ? -500 : 500)) / 1000;
  const std::int64_t magnitude = microseconds < 0 ? -microseconds : microseconds;
  return fmt::format("{}{}.{:03}", microseconds < 0 ? "-" : "", with_separators(magnitude / 1000),
                     magnitude % 1000);
}

MemoryUnit unit_of_peaks(const RunReport& report) {
  Bytes most = report.run.memory_per_rank;
  for (const PeakMemory& peak : report.figures.peaks) most = std::max(most, peak.reserved);
  return MemoryUnit(most);
}

std::string percent(Time part, Time whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f}", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string rate(double value) { return with_separators(static_cast<std::int64_t>(value)); }

// "0" or "0-63"
std::string rank_range(Rank first, Rank end) {
  return end - first <= 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, end - 1);
}

// An imported trace that lacks members of its collectives cannot tell who waited.
bool wait_known(const RunReport& report) {
  return report.run.backend != "import" || report.figures.shares.wait > 0;
}

std::string flops_per_second(double flops) {
  const bool tera = flops >= 1e11;  // a GPU's and not a CPU's
  return fmt::format("{:.1f} {}FLOP/s", flops / (tera ? 1e12 : 1e9), tera ? 'T' : 'G');
}

Table speed_table(const RunReport& report) {
  Table table("Speed", {});
  table.align_left();
  table.row(
      {"step time", fmt::format("{} ms (median, {})", milliseconds(report.figures.step_time_steady),
                                report.figures.steps.size() > 1 ? "without the first step"
                                                                : "of the only step")});
  if (report.figures.tokens_per_s) {
    table.row({"throughput",
               fmt::format("{} tokens/s, {} tokens/s per rank", rate(*report.figures.tokens_per_s),
                           rate(*report.figures.tokens_per_s_per_gpu))});
  }
  if (report.run.backend == "import") {
    table.row({"MFU", "not known: an imported trace has no FLOPs of the model"});
  }
  if (report.figures.mfu) {
    table.row({"MFU", fmt::format("{:.1f} %: {} per rank of {}", 100 * *report.figures.mfu,
                                  flops_per_second(*report.figures.flops_per_s_per_gpu),
                                  report.run.peak_name)});
  }
  return table;
}

Table step_table(const RunReport& report) {
  Table table("Step time over the ranks, ms", {"step", "min", "median", "max", "slowest rank"});
  for (std::size_t s = 0; s < std::min(steps_max, report.figures.steps.size()); ++s) {
    const StepTime& step = report.figures.steps[s];
    table.row({fmt::format("{}", step.step), milliseconds(step.min), milliseconds(step.median),
               milliseconds(step.max), fmt::format("{}", step.slowest)});
  }
  if (report.figures.steps.size() > steps_max) {
    table.note(fmt::format("and {} more", with_separators(static_cast<std::int64_t>(
                                              report.figures.steps.size() - steps_max))));
  }
  return table;
}

Table time_table(const RunReport& report) {
  const TimeShares& shares = report.figures.shares;
  Table table("Time per step, mean over ranks", {"", "ms", "% of step", "meaning"});
  const auto row = [&](const char* name, Time time, const char* meaning) {
    table.row({name, milliseconds(time), percent(time, shares.step), meaning});
  };
  row("compute", shares.compute, "the compute stream works");
  row("communication", shares.communication, "collectives, all streams, waiting included");
  row("  overlapped", shares.overlapped, "behind compute or another collective");
  row("  exposed", shares.exposed, "while compute does nothing");
  if (wait_known(report)) {
    row("  waiting", shares.wait, "for the last member to arrive");
  } else {
    table.row({"  waiting", "-", "-", "for the last member to arrive: not known"});
  }
  row("blocking", shares.blocking, "compute stands still for a collective");
  table.align_last_left();
  return table;
}

// The step that reserves most is often not the one of the table.
std::string headroom_text(const RunReport& report, const MemoryUnit& in_units) {
  const Bytes capacity = report.run.memory_per_rank;
  const Bytes reserved = report.figures.peak_reserved;
  const std::string of = fmt::format("capacity {} {}", in_units(capacity), in_units.name());
  const std::string most =
      fmt::format("most reserved {} in step {}", in_units(reserved), report.figures.reserved_step);
  if (reserved > capacity) {
    return fmt::format("{}, {}: does not fit, {} too much", of, most,
                       in_units(in_units.rounded(reserved) - in_units.rounded(capacity)));
  }
  return fmt::format("{}, {}: headroom {} ({} %)", of, most,
                     in_units(in_units.rounded(capacity) - in_units.rounded(reserved)),
                     percent(report.figures.headroom->value, capacity.value));
}

Table memory_table(const RunReport& report) {
  const std::size_t groups = std::min(groups_max, report.figures.peaks.size());
  std::vector<std::string> columns{"class"};
  for (std::size_t g = 0; g < groups; ++g) {
    columns.push_back("ranks " + rank_range(report.figures.peaks[g].first_rank,
                                            report.figures.peaks[g].end_rank));
  }
  const MemoryUnit in_units = unit_of_peaks(report);
  Table table(fmt::format("Peak memory per rank, {}, in step {}", in_units.name(),
                          report.figures.peak_step),
              columns);
  const auto add = [&](std::string name, auto value) {
    std::vector<std::string> cells{std::move(name)};
    bool any = false;
    for (std::size_t g = 0; g < groups; ++g) {
      const Bytes bytes = value(report.figures.peaks[g]);
      any = any || bytes != Bytes{};
      cells.push_back(in_units(bytes));
    }
    if (any) table.row(std::move(cells));
  };
  for (std::size_t c = 0; c < std::size_t{memory_class_count}; ++c) {
    add(std::string(name_of(static_cast<MemoryClass>(c))),
        [c](const PeakMemory& peak) { return peak.by_class[c]; });
  }
  add("allocated", [](const PeakMemory& peak) { return peak.allocated; });
  add("reserved", [](const PeakMemory& peak) { return peak.reserved; });
  if (report.figures.peaks.size() > groups) {
    table.note(
        fmt::format("and {} more groups of ranks with less", report.figures.peaks.size() - groups));
  }
  if (report.figures.headroom) table.note(headroom_text(report, in_units));
  return table;
}

std::string gigabytes_per_s(const std::optional<double>& bytes_per_s) {
  return bytes_per_s ? fmt::format("{:.1f}", *bytes_per_s / 1e9) : "-";
}

std::string milliseconds_or_dash(const std::optional<Time>& time) {
  return time ? milliseconds(*time) : "-";
}

std::string last_rank(const std::optional<KernelSpread>& spread) {
  if (!spread || spread->sum == 0) return "-";
  return fmt::format("{} ({} %)", spread->last, percent(spread->caused, spread->sum));
}

Table communication_table(const RunReport& report) {
  Bytes most{};
  bool kernels = false;
  bool spreads = false;
  for (const CommunicationKind& row : report.communication.kinds) {
    most = std::max(most, row.bytes);
    kernels = kernels || row.kernel;
    spreads = spreads || row.spread;
  }
  const MemoryUnit in_units(most);
  std::vector<std::string> columns = {"kind",        "count",      in_units.name(),
                                      "transfer ms", "waiting ms", "busbw GB/s"};
  if (kernels) columns.insert(columns.end(), {"kernel ms", "its busbw"});
  if (spreads) columns.insert(columns.end(), {"spread ms", "last rank"});
  Table table("Collectives of all steps", columns);
  for (const CommunicationKind& row : report.communication.kinds) {
    std::vector<std::string> cells = {std::string(name_of(row.kind)),
                                      with_separators(row.count),
                                      row.bytes == Bytes{} ? "-" : in_units(row.bytes),
                                      milliseconds_or_dash(row.transfer),
                                      wait_known(report) ? milliseconds_or_dash(row.wait) : "-",
                                      gigabytes_per_s(row.bus_bandwidth_bytes_per_s)};
    if (kernels) {
      cells.push_back(milliseconds_or_dash(row.kernel));
      cells.push_back(gigabytes_per_s(row.kernel_bus_bandwidth_bytes_per_s));
    }
    if (spreads) {
      cells.push_back(row.spread ? milliseconds(row.spread->sum) : "-");
      cells.push_back(last_rank(row.spread));
    }
    table.row(std::move(cells));
  }
  table.note(recorded_part(report.run));
  if (kernels)
    table.note("kernel: on the device, as NCCL says; it waits there for other ranks, too");
  if (spreads) {
    table.note(
        "spread: the longest kernel of all ranks less the shortest, whose rank began last; "
        "the one that cost most so, and its part");
  }
  for (const auto& [rank, count] : report.communication.without_kernel) {
    table.note(fmt::format("rank {} has no kernel time of {} collectives of all ranks", rank,
                           with_separators(count)));
  }
  return table;
}

// The largest gains of each group; what is under 1 % of the step changes nothing.
Table critical_path_table(const RunReport& report) {
  const analysis::CriticalPath& path = report.critical_path;
  const Time step = path.end - path.begin;
  Table table(fmt::format("Critical path of step {}", path.step),
              {"", "on it ms", "% of step", "10 % shorter: step ms"});
  std::map<analysis::PathGroup, std::size_t> shown;
  for (const analysis::Shortening& row : path.rows) {
    if (row.on_path < step / 100) continue;
    const bool operation = row.group == analysis::PathGroup::operation;
    if (++shown[row.group] > (operation ? path_operations_max : path_others_max)) continue;
    table.row({shortened(row.what), milliseconds(row.on_path), percent(row.on_path, step),
               milliseconds(-row.gain)});
  }
  const Time wait = path.time_of(analysis::PathPart::wait);
  if (wait > 0) {
    table.note(
        fmt::format("{} ms of it wait for ranks that were not recorded", milliseconds(wait)));
  }
  return table;
}

std::vector<std::string> rank_cells(std::string what, const RankMeans& rank,
                                    const MemoryUnit& in_units) {
  return {std::move(what),
          fmt::format("{}", rank.rank),
          milliseconds(rank.step),
          milliseconds(rank.compute),
          milliseconds(rank.exposed),
          milliseconds(rank.blocking),
          milliseconds(rank.wait),
          rank.peak_reserved == Bytes{} ? "-" : in_units(rank.peak_reserved)};
}

std::vector<std::string> rank_columns(const MemoryUnit& in_units) {
  return {"",        "rank",     "step", "compute",
          "exposed", "blocking", "wait", fmt::format("peak {}", in_units.name())};
}

bool all_alike(const std::vector<RankMeans>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const RankMeans& rank) {
    const RankMeans& first = ranks.front();
    return rank.step == first.step && rank.compute == first.compute && rank.wait == first.wait;
  });
}

Table worst_table(const RunReport& report) {
  if (all_alike(report.figures.ranks)) {
    Table table("Worst ranks", {});
    table.note("none: all ranks take the same time");
    return table;
  }
  const MemoryUnit in_units = unit_of_peaks(report);
  Table table("Worst ranks, ms per step", rank_columns(in_units));
  const auto add = [&](const char* what, Time RankMeans::*value) {
    const char* name = what;
    for (const RankMeans& rank : worst_ranks(report.figures, value, 3)) {
      table.row(rank_cells(name, rank, in_units));
      name = "";
    }
  };
  add("by step time", &RankMeans::step);
  add("by compute", &RankMeans::compute);
  add("by wait caused", &RankMeans::wait_caused);
  return table;
}

Table chosen_table(const RunReport& report, const std::vector<Rank>& ranks) {
  const MemoryUnit in_units = unit_of_peaks(report);
  Table table("Chosen ranks, ms per step", rank_columns(in_units));
  for (const Rank rank : ranks) {
    for (const RankMeans& row : report.figures.ranks) {
      if (row.rank == rank) table.row(rank_cells("", row, in_units));
    }
  }
  return table;
}

Table diagnostic_table(const RunReport& report) {
  Table table("Diagnostics", {});
  for (const storage::DiagnosticRow& row : report.diagnostics) {
    table.note(fmt::format("{}: {}", row.code, row.message));
  }
  return table;
}

}  // namespace

std::string report_text(const RunReport& report, const std::vector<Rank>& ranks, bool bold) {
  std::string text = run_table(report).text(bold);
  if (report.figures.steps.empty()) {
    text += "No step was completed.\n\n";
  } else {
    text += speed_table(report).text(bold) + step_table(report).text(bold) +
            time_table(report).text(bold);
  }
  if (!report.figures.peaks.empty()) text += memory_table(report).text(bold);
  if (!report.communication.kinds.empty()) text += communication_table(report).text(bold);
  if (report.critical_path.step >= 0) text += critical_path_table(report).text(bold);
  if (report.figures.ranks.size() > 1) text += worst_table(report).text(bold);
  if (!ranks.empty()) text += chosen_table(report, ranks).text(bold);
  if (!report.diagnostics.empty()) text += diagnostic_table(report).text(bold);
  return text;
}

}  // namespace tessera::cli
