// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "analysis/compared_steps.h"
#include "analysis/compared_work.h"
#include "analysis/op_pairs.h"
#include "analysis/step_noise.h"
#include "tessera/analysis/median.h"
#include "tessera/analysis/metrics.h"
#include "tessera/analysis/spans.h"

namespace tessera::analysis {
namespace {

constexpr std::size_t ops_max = 3, only_max = 10;

/// Sums over ranks and steps that are compared, ns.
struct OpTimes {
  Time duration = 0, transfer = 0, waiting = 0;  // the latter two exposed
  Time beside = 0;                               // computing while a collective runs
};

Time exposed_in(Lanes compute, Time begin, Time end) {
  Time sum = 0;
  for (const auto& [from, to] : exposed_parts(compute, begin, end)) sum += to - from;
  return sum;
}

/// By the index of ops; `only`: of this rank.
using TimesOfOps = std::vector<OpTimes>;

Status add_rank(const Trace& trace, Rank rank, const ComparedSteps& steps, TimesOfOps& times) {
  constexpr Time from = std::numeric_limits<Time>::min(), to = std::numeric_limits<Time>::max();
  TESSERA_ASSIGN(const std::vector<storage::Lane> lanes, trace.reader().lanes(rank, from, to));
  const auto compute = compute_lanes(trace, lanes);
  const auto collectives = collective_lanes(trace, lanes);
  for (const storage::Lane& lane : lanes) {
    for (std::size_t i = 0; i < lane.op.size(); ++i) {
      const storage::OpRow& op = trace.op(lane.op[i]);
      if (op.id != lane.op[i] || op.step < steps.first || op.step >= steps.end) continue;
      OpTimes& sum = times[static_cast<std::size_t>(&op - trace.ops().data())];
      const Time duration = lane.end[i] - lane.begin[i];
      sum.duration += duration;
      if (!is_collective(op.kind)) {
        sum.beside += duration - exposed_in(collectives, lane.begin[i], lane.end[i]);
        continue;
      }
      sum.waiting += exposed_in(compute, lane.begin[i], lane.ready[i]);
      sum.transfer += exposed_in(compute, lane.ready[i], lane.end[i]);
    }
  }
  return {};
}

struct Run {
  const Trace* trace;
  TimesOfOps times;
  RankMeansOfSteps summary;
  LateRank late;
  StepParts parts;
  BySteps steps;
};

/// What the operations of each step come to.
void add_operations(const Trace& trace, const TimesOfOps& times, const ComparedSteps& steps,
                    Time ranks, BySteps& out) {
  const auto count = static_cast<std::size_t>(steps.count());
  out.waiting.resize(count);
  for (auto& kind : out.transfer) kind.resize(count);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const storage::OpRow& op = trace.ops()[i];
    if (op.step < steps.first || op.step >= steps.end) continue;
    const auto s = static_cast<std::size_t>(op.step - steps.first);
    out.waiting[s] += times[i].waiting / ranks;
    out.transfer[static_cast<std::size_t>(op.kind)][s] += times[i].transfer / ranks;
  }
}

Result<Run> read_run(const Trace& trace, const std::vector<Rank>& ranks, const ComparedSteps& steps,
                     const std::atomic<bool>* stop) {
  Run run{&trace, TimesOfOps(trace.ops().size()), {}, {}, {}, {}};
  TESSERA_ASSIGN(run.summary, means_of_steps(trace, steps, run.steps));
  run.late = late_rank_of(run.summary);
  for (const Rank rank : ranks) {
    if (stop != nullptr && *stop) return Status(Code::cancelled, "The comparison was stopped.");
    TESSERA_TRY(add_rank(trace, rank, steps, run.times));
  }
  const auto recorded = static_cast<Time>(std::max<std::size_t>(ranks.size(), 1));
  add_operations(trace, run.times, steps, recorded, run.steps);
  const Time shared = recorded * steps.count();
  for (const OpTimes& op : run.times) {
    run.parts.transfer += op.transfer;
    run.parts.waiting += op.waiting;
  }
  run.parts.transfer /= shared;
  run.parts.waiting /= shared;
  run.parts.step = median(run.summary.step);
  run.parts.compute = median(run.summary.compute);
  const Time exposed = median(run.summary.exposed);
  run.parts.other = std::max<Time>(0, run.parts.step - run.parts.compute - exposed);
  return run;
}

/// Operations as they are listed: kind, unit, phase, and the reasons in A and B.
using Named = std::tuple<OpKind, std::string_view, Phase, Reason, Reason>;

std::string text_of(const Named& named) {
  const auto& [kind, unit, phase, a, b] = named;
  std::string text = fmt::format("{}{}{}, {}", name_of(kind), unit.empty() ? "" : " ", unit,
                                 name_of(phase).empty() ? "outside of passes" : name_of(phase));
  if (a == b) return text;
  const auto word = [](Reason reason) {
    return reason == Reason::none ? std::string_view("nothing") : name_of(reason);
  };
  return text + fmt::format(": {} in A, {} in B", word(a), word(b));
}

class Differences {
 public:
  Differences(const Run& a, const Run& b, const OpPairs& pairs, Time shared)
      : a_(a), b_(b), pairs_(pairs), shared_(shared) {}

  /// The changed operations for which wanted(op) holds, by `value`; with `sum`, of all of them.
  template <class F>
  std::vector<ChangedOps> largest(Time OpTimes::*value, F wanted, Time& sum) const {
    std::map<Named, ChangedOps> groups;
    const auto add = [&](const storage::OpRow& op, Reason a, Reason b, Time in_a, Time in_b) {
      if (!wanted(op)) return;
      ChangedOps& group = groups[{op.kind, op.unit, op.phase, a, b}];
      ++group.count;
      group.a += in_a;
      group.b += in_b;
    };
    for (const OpPair& pair : pairs_.pairs) {
      const storage::OpRow &a = a_.trace->ops()[pair.a], &b = b_.trace->ops()[pair.b];
      add(a, a.reason, b.reason, a_.times[pair.a].*value, b_.times[pair.b].*value);
    }
    for (const std::size_t i : pairs_.only_a) {
      const storage::OpRow& op = a_.trace->ops()[i];
      add(op, op.reason, op.reason, a_.times[i].*value, 0);
    }
    for (const std::size_t i : pairs_.only_b) {
      const storage::OpRow& op = b_.trace->ops()[i];
      add(op, op.reason, op.reason, 0, b_.times[i].*value);
    }
    std::vector<ChangedOps> changed;
    sum = 0;
    for (auto& [named, group] : groups) {
      sum += group.b - group.a;
      group.what = text_of(named);
      changed.push_back(group);
    }
    sum /= shared_;
    std::stable_sort(changed.begin(), changed.end(), [](const auto& x, const auto& y) {
      return std::abs(x.b - x.a) > std::abs(y.b - y.a);
    });
    if (changed.size() > ops_max) changed.resize(ops_max);
    for (ChangedOps& group : changed) {
      group.a /= shared_;
      group.b /= shared_;
    }
    return changed;
  }

  /// What operations take longer in B (> 0) of which another share is beside collectives; one that
  /// is slower by itself has no larger share of them. Collectives never take so much of a device
  /// that an operation lasts more than half as long again.
  Time beside_collectives() const {
    constexpr double same_share = 0.05, slowed_most = 1.5;
    Time sum = 0;
    for (const OpPair& pair : pairs_.pairs) {
      const OpTimes &a = a_.times[pair.a], &b = b_.times[pair.b];
      if (a.duration == 0 || b.duration == 0 || is_collective(a_.trace->ops()[pair.a].kind)) {
        continue;
      }
      const double more = share_of(b) - share_of(a);
      const Time longer = b.duration - a.duration;
      const auto [less, most] = std::minmax(a.duration, b.duration);
      if (static_cast<double>(most) > slowed_most * static_cast<double>(less)) continue;
      if (more > same_share ? longer > 0 : more < -same_share && longer < 0) sum += longer;
    }
    return sum / shared_;
  }

 private:
  static double share_of(const OpTimes& op) {
    return static_cast<double>(op.beside) / static_cast<double>(op.duration);
  }

  const Run& a_;
  const Run& b_;
  const OpPairs& pairs_;
  Time shared_;
};

/// Exposed transfers: by kind, or, if operations are issued at other moments, as one cause, since
/// what waits for a late gather exposes others in its turn.
void add_transfers(const Run& a, const Run& b, const Differences& differences, Comparison& out) {
  Time all = 0;
  const std::string what = "transfers that compute does not hide";
  if (out.other_reason > 0) {
    const auto collective = [](const storage::OpRow& op) { return is_collective(op.kind); };
    std::vector<ChangedOps> ops = differences.largest(&OpTimes::transfer, collective, all);
    out.causes.push_back(
        {fmt::format("{}, as {} operations are issued for another reason (prefetch)", what,
                     out.other_reason),
         all, std::move(ops), noise_of(a.steps.all_transfers(), b.steps.all_transfers()),
         /*certain=*/true});
    return;
  }
  for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_reduce,
                            OpKind::reduce, OpKind::broadcast, OpKind::all_to_all}) {
    const auto of_kind = [kind](const storage::OpRow& op) { return op.kind == kind; };
    std::vector<ChangedOps> ops = differences.largest(&OpTimes::transfer, of_kind, all);
    if (ops.empty()) continue;
    const auto k = static_cast<std::size_t>(kind);
    out.causes.push_back({fmt::format("{}: {}", name_of(kind), what), all, std::move(ops),
                          noise_of(a.steps.transfer[k], b.steps.transfer[k])});
  }
}

/// What follows from other collectives: what compute does not hide of them, and what computes
/// beside them.
void add_changed(const Run& a, const Run& b, const Differences& differences, Time beside,
                 Comparison& out) {
  Time all = 0;
  const auto collective = [](const storage::OpRow& op) { return is_collective(op.kind); };
  std::vector<ChangedOps> ops = differences.largest(&OpTimes::transfer, collective, all);
  const auto with_compute = [](const Run& run) {
    std::vector<Time> sums = run.steps.all_transfers();
    for (std::size_t s = 0; s < sums.size(); ++s) sums[s] += run.steps.compute[s];
    return sums;
  };
  out.causes.push_back({fmt::format("other collectives: transfers that compute does not hide{}",
                                    beside == 0 ? "" : ", and compute beside them"),
                        all + beside, std::move(ops),
                        beside == 0 ? noise_of(a.steps.all_transfers(), b.steps.all_transfers())
                                    : noise_of(with_compute(a), with_compute(b)),
                        /*certain=*/true});
}

/// Of the median rank: what operations take for themselves, and what they take longer or shorter
/// because more or less of them is beside collectives, which take bandwidth and processors.
void add_compute(const Run& a, const Run& b, const Differences& differences, bool same,
                 Comparison& out) {
  Time all = 0;
  const auto computes = [](const storage::OpRow& op) { return !is_collective(op.kind); };
  const Time compute = b.parts.compute - a.parts.compute;
  // Whatever changes moves operations a little; it is named where it is most of the change.
  const Time slowed = differences.beside_collectives();
  const bool most = (slowed > 0) == (compute > 0) && 3 * std::abs(slowed) >= 2 * std::abs(compute);
  const Time least = std::min(std::abs(slowed), std::abs(compute));
  const Time beside = !most ? 0 : compute > 0 ? least : -least;
  const Time noise = noise_of(a.steps.compute, b.steps.compute);
  if (!out.changed.empty() && out.other_reason == 0) {
    // Where nothing else was changed, it is what makes compute longer.
    const Time follows = same && std::abs(compute) > noise ? compute : beside;
    add_changed(a, b, differences, follows, out);
    std::vector<ChangedOps> of_compute = differences.largest(&OpTimes::duration, computes, all);
    out.causes.push_back(
        {"compute of the median rank", compute - follows, std::move(of_compute), noise});
    return;
  }
  std::vector<ChangedOps> ops = differences.largest(&OpTimes::duration, computes, all);
  out.causes.push_back({fmt::format("compute that {} collectives run beside, which slow it down",
                                    beside > 0 ? "more or longer" : "fewer or shorter"),
                        beside, ops, noise});
  out.causes.push_back({"compute of the median rank", compute - beside, std::move(ops), noise});
}

void sort_causes(Comparison& out) {
  constexpr Time least_part = 10;  // of the largest
  std::erase_if(out.causes, [](const Cause& cause) { return cause.time == 0; });
  std::stable_sort(out.causes.begin(), out.causes.end(), [](const Cause& x, const Cause& y) {
    return std::abs(x.time) > std::abs(y.time);
  });
  const auto chance =
      std::stable_partition(out.causes.begin(), out.causes.end(),
                            [](const Cause& cause) { return std::abs(cause.time) > cause.noise; });
  out.chance.assign(chance, out.causes.end());
  out.causes.erase(chance, out.causes.end());
  if (out.causes.empty()) return;
  const Time largest = std::abs(out.causes.front().time);
  std::stable_partition(out.causes.begin(), out.causes.end(), [&](const Cause& cause) {
    return cause.certain && least_part * std::abs(cause.time) >= largest;
  });
}

void add_causes(const Run& a, const Run& b, const Differences& differences, bool same_compute,
                Comparison& out) {
  Time all = 0;
  add_compute(a, b, differences, same_compute, out);
  if (out.changed.empty() || out.other_reason > 0) add_transfers(a, b, differences, out);
  const Time late = b.late.late - a.late.late;
  const LateRank& who = late > 0 ? b.late : a.late;
  out.causes.push_back(
      {fmt::format("rank {} {} longer than the median rank in {}, and "
                   "the others wait for it",
                   who.rank, who.computing ? "computes" : "is busy (host, copies, I/O)",
                   late > 0 ? "B" : "A"),
       late,
       {},
       noise_of(a.steps.late, b.steps.late)});
  const auto collective = [](const storage::OpRow& op) { return is_collective(op.kind); };
  std::vector<ChangedOps> waits = differences.largest(&OpTimes::waiting, collective, all);
  // The median rank waits for the late one about as long as that is late.
  const Time rest = (all > 0) == (late > 0) ? std::max<Time>(0, std::abs(all) - std::abs(late)) : 0;
  out.causes.push_back({"waiting in collectives for ranks that come late in turn",
                        all > 0 ? rest : -rest, std::move(waits),
                        noise_of(a.steps.waiting, b.steps.waiting)});
  out.causes.push_back({"neither compute nor collectives: the host, copies, I/O",
                        b.parts.other - a.parts.other,
                        {},
                        noise_of(a.steps.other, b.steps.other)});
  sort_causes(out);
}

PeakMemory highest_peak(const Trace& trace) {
  PeakMemory highest{};
  for (const PeakMemory& peak : trace.peaks()) {
    if (peak.allocated > highest.allocated) highest = peak;
  }
  return highest;
}

void add_only(const Trace& trace, const std::vector<std::size_t>& indices, bool in_a,
              Comparison& out) {
  std::map<Named, std::int64_t> groups;
  for (const std::size_t i : indices) {
    const storage::OpRow& op = trace.ops()[i];
    ++groups[{op.kind, op.unit, op.phase, op.reason, op.reason}];
  }
  for (const auto& [named, count] : groups) out.only.push_back({in_a, text_of(named), count});
}

}  // namespace

double Comparison::matched_share() const {
  const auto all = static_cast<double>(ops_a + ops_b);
  return all > 0 ? 2 * static_cast<double>(matched) / all : 1;
}

Result<Comparison> compare(const Trace& a, const Trace& b, const std::atomic<bool>* stop) {
  Comparison out;
  out.steps = std::min(a.step_count(), b.step_count());
  if (out.steps == 0) {
    return Status(Code::invalid_argument,
                  "The traces have no whole step in common, so there is nothing to compare.");
  }
  const auto [from_a, to_a] = a.recorded_steps();
  const auto [from_b, to_b] = b.recorded_steps();
  const std::int32_t from = std::max(from_a, from_b), to = std::min(to_a, to_b);
  if (from >= to) {
    return Status(Code::invalid_argument,
                  "The traces have not recorded the operations of any step that both have.");
  }
  out.steps = to - from;
  const ComparedSteps steps{first_steady(from, to), to};
  const OpPairs pairs = pair_ops(a, b, from, to);
  out.matched = static_cast<std::int64_t>(pairs.pairs.size());
  out.collectives_only = pairs.collectives_only;
  out.ops_a = out.matched + static_cast<std::int64_t>(pairs.only_a.size());
  out.ops_b = out.matched + static_cast<std::int64_t>(pairs.only_b.size());
  out.other_reason = std::count_if(pairs.pairs.begin(), pairs.pairs.end(),
                                   [](const OpPair& pair) { return !pair.same_reason; });
  out.ranks = recorded_in_both(a, b);
  TESSERA_ASSIGN(const Run run_a, read_run(a, out.ranks, steps, stop));
  TESSERA_ASSIGN(const Run run_b, read_run(b, out.ranks, steps, stop));
  out.a = run_a.parts;
  out.b = run_b.parts;
  const auto shared = static_cast<Time>(std::max<std::size_t>(out.ranks.size(), 1)) * steps.count();
  // Not all imports know sizes.
  if (!pairs.collectives_only) out.changed = changed_work(a, b, steps.first, steps.end);
  add_causes(run_a, run_b, Differences(run_a, run_b, pairs, shared), same_computations(a, b, pairs),
             out);
  out.peak_a = highest_peak(a);
  out.peak_b = highest_peak(b);
  add_only(a, pairs.only_a, true, out);
  add_only(b, pairs.only_b, false, out);
  std::stable_sort(out.only.begin(), out.only.end(),
                   [](const OnlyInOne& x, const OnlyInOne& y) { return x.count > y.count; });
  if (out.only.size() > only_max) out.only.resize(only_max);
  return out;
}

}  // namespace tessera::analysis
