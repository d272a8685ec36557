// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "analysis/compared_steps.h"
#include "analysis/compared_work.h"
#include "analysis/op_pairs.h"
#include "analysis/op_times.h"
#include "analysis/step_noise.h"
#include "tessera/analysis/median.h"
#include "tessera/analysis/metrics.h"

namespace tessera::analysis {
namespace {

constexpr std::size_t ops_max = 3, only_max = 10;

struct Run {
  OpTable table;
  TimesOfOps times;
  RankMeansOfSteps summary;
  LateRank late;
  StepParts parts;
  BySteps steps;
};

/// What the operations of each step come to.
void add_operations(const Run& run, const ComparedSteps& steps, Time ranks, BySteps& out) {
  const auto count = static_cast<std::size_t>(steps.count());
  out.waiting.resize(count);
  for (auto& kind : out.transfer) kind.resize(count);
  for (std::size_t i = 0; i < run.times.size(); ++i) {
    const std::int32_t step = run.table.step(i);
    if (step < steps.first || step >= steps.end) continue;
    const auto s = static_cast<std::size_t>(step - steps.first);
    out.waiting[s] += run.times[i].waiting / ranks;
    out.transfer[static_cast<std::size_t>(run.table.look(i).kind)][s] +=
        run.times[i].transfer / ranks;
  }
}

Result<Run> read_run(const Trace& trace, const std::vector<Rank>& ranks, const ComparedSteps& steps,
                     OpLooks& looks, const std::atomic<bool>* stop) {
  TESSERA_ASSIGN(OpTable table, OpTable::of(trace, steps.first, steps.end, looks));
  TimesOfOps none(table.size());
  Run run{std::move(table), std::move(none), {}, {}, {}, {}};
  TESSERA_ASSIGN(run.summary, means_of_steps(trace, steps, run.steps));
  run.late = late_rank_of(run.summary);
  for (const Rank rank : ranks) {
    if (stop != nullptr && *stop) return Status(Code::cancelled, "The comparison was stopped.");
    TESSERA_TRY(add_rank(trace, run.table, rank, steps, run.times));
  }
  const auto recorded = static_cast<Time>(std::max<std::size_t>(ranks.size(), 1));
  add_operations(run, steps, recorded, run.steps);
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

/// What all operations of a look in A and one in B come to.
struct LookTimes {
  std::int64_t count = 0;
  OpTimes a, b;
};

class Differences {
 public:
  Differences(const Run& a, const Run& b, const OpLooks& looks, const OpPairs& pairs, Time shared)
      : looks_(looks), shared_(shared) {
    for (const OpPair& pair : pairs.pairs) {
      const auto of_a = static_cast<std::size_t>(pair.a), of_b = static_cast<std::size_t>(pair.b);
      LookTimes& like = times_[{a.table.look_place(of_a), b.table.look_place(of_b)}];
      ++like.count;
      like.a.add(a.times[of_a]);
      like.b.add(b.times[of_b]);
      if (!is_collective(a.table.look(of_a).kind)) add_beside(a.times[of_a], b.times[of_b]);
    }
    add_only(a, pairs.only_a, &LookTimes::a);
    add_only(b, pairs.only_b, &LookTimes::b);
  }

  /// The changed operations for which wanted(kind) holds, by `value`; with `sum`, of all of them.
  template <class F>
  std::vector<ChangedOps> largest(Time OpTimes::*value, F wanted, Time& sum) const {
    std::map<Named, ChangedOps> groups;
    for (const auto& [like, times] : times_) {
      const OpLook& a = looks_[like.first];
      if (!wanted(a.kind)) continue;
      ChangedOps& group = groups[{a.kind, a.unit, a.phase, a.reason, looks_[like.second].reason}];
      group.count += times.count;
      group.a += times.a.*value;
      group.b += times.b.*value;
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
  Time beside_collectives() const { return beside_ / shared_; }

 private:
  static double share_of(const OpTimes& op) {
    return static_cast<double>(op.beside) / static_cast<double>(op.duration);
  }

  void add_beside(const OpTimes& a, const OpTimes& b) {
    constexpr double same_share = 0.05, slowed_most = 1.5;
    if (a.duration == 0 || b.duration == 0) return;
    const double more = share_of(b) - share_of(a);
    const Time longer = b.duration - a.duration;
    const auto [less, most] = std::minmax(a.duration, b.duration);
    if (static_cast<double>(most) > slowed_most * static_cast<double>(less)) return;
    if (more > same_share ? longer > 0 : more < -same_share && longer < 0) beside_ += longer;
  }

  void add_only(const Run& run, const std::vector<std::int32_t>& indices, OpTimes LookTimes::*of) {
    for (const std::int32_t index : indices) {
      const auto i = static_cast<std::size_t>(index);
      LookTimes& like = times_[{run.table.look_place(i), run.table.look_place(i)}];
      ++like.count;
      (like.*of).add(run.times[i]);
    }
  }

  const OpLooks& looks_;
  Time shared_;
  std::map<std::pair<std::int32_t, std::int32_t>, LookTimes> times_;  // by looks in A and B
  Time beside_ = 0;
};

/// Exposed transfers: by kind, or, if operations are issued at other moments, as one cause, since
/// what waits for a late gather exposes others in its turn.
void add_transfers(const Run& a, const Run& b, const Differences& differences, Comparison& out) {
  Time all = 0;
  const std::string what = "transfers that compute does not hide";
  if (out.other_reason > 0) {
    const auto collective = [](OpKind kind) { return is_collective(kind); };
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
    const auto of_kind = [kind](OpKind other) { return other == kind; };
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
  const auto collective = [](OpKind kind) { return is_collective(kind); };
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
  const auto computes = [](OpKind kind) { return !is_collective(kind); };
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
  const auto collective = [](OpKind kind) { return is_collective(kind); };
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

void add_only(const OpTable& table, const std::vector<std::int32_t>& indices, bool in_a,
              Comparison& out) {
  std::map<Named, std::int64_t> groups;
  for (const std::int32_t index : indices) {
    const OpLook& op = table.look(static_cast<std::size_t>(index));
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
  out.ranks = recorded_in_both(a, b);
  OpLooks looks;
  TESSERA_ASSIGN(const Run run_a, read_run(a, out.ranks, steps, looks, stop));
  TESSERA_ASSIGN(const Run run_b, read_run(b, out.ranks, steps, looks, stop));
  out.a = run_a.parts;
  out.b = run_b.parts;
  const OpPairs pairs = pair_ops(run_a.table, run_b.table, pairs_only_collectives(a, b), from, to);
  out.matched = std::ssize(pairs.pairs);
  out.collectives_only = pairs.collectives_only;
  out.ops_a = out.matched + std::ssize(pairs.only_a);
  out.ops_b = out.matched + std::ssize(pairs.only_b);
  out.other_reason = std::count_if(pairs.pairs.begin(), pairs.pairs.end(),
                                   [](const OpPair& pair) { return !pair.same_reason; });
  const auto shared = static_cast<Time>(std::max<std::size_t>(out.ranks.size(), 1)) * steps.count();
  // Not all imports know sizes.
  if (!pairs.collectives_only) {
    out.changed = changed_work(run_a.table.work(), run_b.table.work(), steps.count());
  }
  add_causes(run_a, run_b, Differences(run_a, run_b, looks, pairs, shared),
             same_computations(run_a.table, run_b.table, pairs), out);
  out.peak_a = highest_peak(a);
  out.peak_b = highest_peak(b);
  add_only(run_a.table, pairs.only_a, true, out);
  add_only(run_b.table, pairs.only_b, false, out);
  std::stable_sort(out.only.begin(), out.only.end(),
                   [](const OnlyInOne& x, const OnlyInOne& y) { return x.count > y.count; });
  if (out.only.size() > only_max) out.only.resize(only_max);
  return out;
}

}  // namespace tessera::analysis
