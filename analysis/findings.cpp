// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "analysis/late_gathers.h"
#include "analysis/memory_growth.h"
#include "analysis/parted_ranks.h"
#include "tessera/analysis/median.h"
#include "tessera/analysis/metrics.h"
#include "tessera/analysis/run.h"
#include "tessera/analysis/text.h"

namespace tessera::analysis {
namespace {

constexpr double cost_min = 0.005;  // of the step: less is not worth a look
constexpr double failure_cost = 1000;
constexpr double memory_excess_min = 0.05;
constexpr double nearly_full = 0.9;  // of the capacity
constexpr double unused_min = 0.15;  // of what is reserved
constexpr double exposed_min = 0.5;  // of the step
constexpr double idle_min = 0.5;     // likewise

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::string ranks_of(const Outlier& o) {
  return o.first_rank == o.last_rank ? fmt::format("Rank {}", o.first_rank)
                                     : fmt::format("Ranks {} to {}", o.first_rank, o.last_rank);
}

std::string steps_of(const Outlier& o) {
  return o.first_step == o.last_step
             ? fmt::format("in step {}", o.first_step)
             : fmt::format("in {} of steps {} to {}", o.count, o.first_step, o.last_step);
}

Time median_step(const Trace& trace) {
  std::vector<Time> lengths;
  for (std::int32_t step = first_steady(0, trace.step_count()); step < trace.step_count(); ++step) {
    const auto [begin, end] = trace.step_range(step);
    lengths.push_back(end - begin);
  }
  return lengths.empty() ? 1 : std::max<Time>(1, median(std::move(lengths)));
}

void add_failures(const Trace& trace, std::vector<Finding>& out) {
  using Severity = TraceDiagnostic::Severity;
  for (const storage::DiagnosticRow& row : trace.diagnostics()) {
    if (row.severity != Severity::error && row.severity != Severity::data_loss) continue;
    Finding& f = out.emplace_back();
    f.title = row.message;
    f.evidence =
        fmt::format("The run reported {} at {}.", row.code, moment_text(row.time, 100'000));
    if (row.code == "out_of_memory") {
      f.advice =
          "Shard or free more: --reshard-after-forward always, --checkpointing full, a smaller "
          "--batch, or offload with --offload-params.";
    }
    f.cost = failure_cost;
    f.rank = row.rank;
    f.op = row.op;
    f.time = row.time;
    f.step = trace.step_at(row.time);
  }
}

struct TimeClaim {
  FindingKind kind;
  Metric metric;
  const char* does;
  const char* do_together;  // several ranks
  const char* consequence;
  const char* advice;
};

constexpr TimeClaim claims[] = {
    {FindingKind::slow_rank, Metric::compute, "computes", "compute",
     "the others wait for it in collectives",
     "Look at that GPU's clock, temperature and host, or leave its node out; no option of the "
     "scheme makes up for it."},
    {FindingKind::slow_link, Metric::transfer, "communicates", "communicate",
     "its collectives take longer than those of other groups",
     "Look at the link or switch of its node; --shard-group keeps the large collectives inside of "
     "nodes."},
};

/// Whether all groups of a communicator lie alike on nodes; an import does not say how they lie.
bool groups_lie_alike(const Trace& trace) {
  if (trace.run().backend == "import") return false;
  const std::int32_t node = std::max(1, trace.run().ranks_per_node);
  const auto fits = [&](std::int32_t size) {
    return size > 0 && (size % node == 0 || node % size == 0);
  };
  const auto& all = trace.info().communicators;
  return std::all_of(all.begin(), all.end(), [&](const auto& communicator) {
    return fits(communicator.group_size) && fits(communicator.group_count);
  });
}

/// A GPU that is slow for good is a fault, however little of this run is computing.
bool matters(const TimeClaim& claim, double cost, bool for_good) {
  return cost >= cost_min || (for_good && claim.kind == FindingKind::slow_rank);
}

/// Half of the ranks or more, between which and the others the median lies.
void add_parted(const Trace& trace, const TimeClaim& claim, const MetricTable& table,
                Time step_time, std::vector<Finding>& out) {
  if (claim.kind == FindingKind::slow_link && !groups_lie_alike(trace)) return;
  const std::optional<PartedRanks> parted = parted_ranks(table);
  if (!parted) return;
  const double cost = static_cast<double>(parted->difference) / static_cast<double>(step_time);
  if (!matters(claim, cost, /*for_good=*/true)) return;
  Finding& f = out.emplace_back();
  f.kind = claim.kind;
  f.title = fmt::format("{} {} {:.1f} % longer than the others",
                        text_of_ranks(parted->slow, /*begins=*/true), claim.do_together,
                        100 * parted->excess);
  f.evidence =
      fmt::format("{} above the others' {} in {} steps; {}.", time_text(parted->difference),
                  time_text(parted->usual), parted->steps, claim.consequence);
  f.advice = claim.advice;
  f.cost = cost;
  f.rank = parted->slow.front();
  f.step = table.steps() - 1;
}

void add_slow(const Trace& trace, const TimeClaim& claim, const MetricTable& table,
              std::vector<Finding>& out) {
  const Time step_time = median_step(trace);
  const std::size_t before = out.size();
  for (const Outlier& o : outliers(table, usual_excess(table))) {
    const double cost = static_cast<double>(o.difference) / static_cast<double>(step_time) *
                        o.count / std::max(1, trace.step_count());
    const bool for_good = 2 * o.count >= trace.step_count();
    if (o.excess <= 0 || !matters(claim, cost, for_good)) continue;
    const std::int32_t middle = (o.first_step + o.last_step) / 2;
    Finding& f = out.emplace_back();
    f.kind = claim.kind;
    f.title =
        fmt::format("{} {} {:.1f} % longer than usual", ranks_of(o),
                    o.first_rank == o.last_rank ? claim.does : claim.do_together, 100 * o.excess);
    f.evidence = fmt::format("{} above the median rank's {} {}; {}.", time_text(o.difference),
                             time_text(table.range(middle).median), steps_of(o), claim.consequence);
    f.advice = claim.advice;
    f.cost = cost;
    f.rank = o.first_rank;
    f.step = middle;
  }
  if (out.size() == before) add_parted(trace, claim, table, step_time, out);
}

void add_memory(const MetricTable& table, std::vector<Finding>& out) {
  add_growth(table, out);
  for (const Outlier& o : outliers(table)) {
    if (o.excess < memory_excess_min) continue;
    Finding& f = out.emplace_back();
    f.kind = FindingKind::unbalanced_memory;
    f.title = fmt::format("{} {} {:.1f} % more memory than usual", ranks_of(o),
                          o.first_rank == o.last_rank ? "holds" : "hold", 100 * o.excess);
    f.evidence =
        fmt::format("{:.2f} GiB above the median rank's peak {}.", gib(o.difference), steps_of(o));
    f.advice =
        "The fullest rank decides what fits: shard what it owns alone (fully_shard, zero2), or "
        "move parameters to other owners.";
    f.cost = o.excess * 0.1;
    f.rank = o.first_rank;
    f.step = o.first_step;
  }
}

Status add_fragmentation(const Trace& trace, std::vector<Finding>& out) {
  const double capacity = static_cast<double>(trace.run().memory_per_rank.value);
  if (capacity <= 0) return {};
  const auto& steps = trace.summary().steps;
  const auto fullest = std::max_element(
      steps.begin(), steps.end(),
      [](const auto& a, const auto& b) { return a.peak_reserved < b.peak_reserved; });
  TESSERA_ASSIGN(const storage::RankSteps rows, trace.step_rows(fullest->step));
  const auto worst = static_cast<std::size_t>(
      std::max_element(rows.peak_reserved.begin(), rows.peak_reserved.end()) -
      rows.peak_reserved.begin());
  const auto reserved = static_cast<double>(rows.peak_reserved[worst].value);
  const auto unused = reserved - static_cast<double>(rows.peak_allocated[worst].value);
  // A run that goes on beyond its capacity has failed: what it held then says nothing.
  if (reserved < nearly_full * capacity || reserved > capacity) return {};
  if (unused < unused_min * reserved) return {};
  Finding& f = out.emplace_back();
  f.kind = FindingKind::fragmentation;
  f.title = fmt::format("{:.1f} GiB of memory are reserved but cannot be used",
                        gib(static_cast<std::int64_t>(unused)));
  f.evidence = fmt::format(
      "{:.1f} GiB are reserved and {:.1f} GiB allocated at the peak; the capacity is {:.1f} GiB.",
      gib(static_cast<std::int64_t>(reserved)), gib(static_cast<std::int64_t>(reserved - unused)),
      gib(static_cast<std::int64_t>(capacity)));
  f.advice =
      "Gather ahead less, so that buffers of one size are used again: keep the limit of gathers "
      "(without --no-limit-all-gathers), or fully_shard.";
  f.cost = unused / reserved * 0.5;
  f.rank = static_cast<Rank>(worst);
  f.step = fullest->step;
  return {};
}

void add_exposed(const Trace& trace, std::vector<Finding>& out) {
  const TimeShares shares = figures_of(trace).shares;
  if (shares.exposed_share() < exposed_min) return;
  Finding& f = out.emplace_back();
  f.kind = FindingKind::exposed;
  f.title =
      fmt::format("Collectives alone take {:.1f} % of the step", 100 * shares.exposed_share());
  f.evidence = fmt::format(
      "In {} of {} per step, mean over ranks, nothing is computed meanwhile; {} of that are "
      "waiting for others, and compute takes {}.",
      time_text(shares.exposed), time_text(shares.step),
      time_text(std::min(shares.wait, shares.exposed)), time_text(shares.compute));
  f.advice =
      "Give each rank more to compute, by a larger --batch or fewer --nodes, or keep collectives "
      "inside of nodes by --shard-group.";
  f.cost = shares.exposed_share();
  f.step = trace.last_step();
}

void add_idle(const Trace& trace, std::vector<Finding>& out) {
  const TimeShares shares = figures_of(trace).shares;
  const Time idle = std::max<Time>(0, shares.step - shares.compute - shares.exposed);
  const double share =
      shares.step > 0 ? static_cast<double>(idle) / static_cast<double>(shares.step) : 0;
  if (share < idle_min) return;
  const bool offloads = has_metric(trace, Metric::files);
  Finding& f = out.emplace_back();
  f.kind = FindingKind::idle;
  f.title = fmt::format("The host, copies and files take {:.1f} % of the step", 100 * share);
  f.evidence = fmt::format(
      "In {} of {} per step, mean over ranks, neither compute nor a collective runs; compute takes "
      "{} and exposed collectives {}.",
      time_text(idle), time_text(shares.step), time_text(shares.compute),
      time_text(shares.exposed));
  f.advice = offloads ? "Offload less (--offload-param, --offload-optimizer, --offload-ratio), or "
                        "give each rank more to compute between two steps of the optimizer, by a "
                        "larger --batch or --accumulation."
                      : "Give each rank more to compute per operation, by a larger --batch, so "
                        "that the host is not what it waits for.";
  f.cost = share;
  f.step = trace.last_step();
}

/// Follows from the options, and is no fault.
bool is_choice(FindingKind kind) {
  return kind == FindingKind::exposed || kind == FindingKind::idle;
}

}  // namespace

std::vector<Finding> shown_by(const Trace& trace, const MetricTable& table) {
  std::vector<Finding> out;
  for (const TimeClaim& claim : claims) {
    if (claim.metric == table.metric()) add_slow(trace, claim, table, out);
  }
  if (table.metric() == Metric::peak_memory) add_memory(table, out);
  return out;
}

Result<std::vector<Finding>> findings_of(const Trace& trace) {
  ShownFindings shown;
  if (trace.step_count() > 0 && trace.rank_count() > 0) {
    TESSERA_ASSIGN(const std::vector<MetricTable> tables, tables_of(trace, finding_metrics));
    for (std::size_t k = 0; k < tables.size(); ++k) shown[k] = shown_by(trace, tables[k]);
  }
  return findings_of(trace, std::move(shown));
}

Result<std::vector<Finding>> findings_of(const Trace& trace, ShownFindings shown) {
  std::vector<Finding> out;
  add_failures(trace, out);
  const auto take = [&](std::vector<Finding>& from) {
    std::move(from.begin(), from.end(), std::back_inserter(out));
  };
  auto& [compute, transfer, memory] = shown;
  take(compute);
  take(transfer);
  if (trace.step_count() > 0 && trace.rank_count() > 0) {
    TESSERA_TRY(add_late_gathers(trace, median_step(trace), out));
    take(memory);
    TESSERA_TRY(add_fragmentation(trace, out));
    add_exposed(trace, out);
    add_idle(trace, out);
  }
  const auto order = [](const Finding& f) { return std::pair(is_choice(f.kind), -f.cost); };
  std::stable_sort(out.begin(), out.end(),
                   [&](const Finding& a, const Finding& b) { return order(a) < order(b); });
  return out;
}

}  // namespace tessera::analysis
