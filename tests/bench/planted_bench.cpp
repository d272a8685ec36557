// SPDX-License-Identifier: Apache-2.0
// How often `report` names a planted fault first, and how often it names one where none is; the
// same of `compare` and planted changes. Everything is simulated and drawn from seeds, so that two
// runs print the same.
//
//   bench_planted FOLDER [-v]          # for a trace at a time; -v lists what was not named first
//   bench_planted --findings TRACE...  # what is named of these
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/tracing/clock_kernels.h"
#include "tessera/analysis/compare.h"
#include "tessera/analysis/findings.h"
#include "tessera/assert.h"
#include "tessera/comm_hook.h"
#include "tessera/sim/simulate.h"
#include "tessera/storage/trace_writer.h"
#include "tests/bench/held_sink.h"

namespace {

using namespace tessera;  // a program, not a library
using analysis::FindingKind;
using bench::Computed;
using bench::Held;
using bench::HeldSink;

template <class T>
T good(Result<T> result) {
  TESSERA_ASSERT(result.ok(), result.status().message().c_str());
  return std::move(result).value();
}
void good(const Status& status) { TESSERA_ASSERT(status.ok(), status.message().c_str()); }

struct Setup {
  const char* name;
  Index nodes;
  Scheme scheme;
  const char* cluster = "dgx-h100";
};

struct Run {
  Setup setup;
  std::uint64_t seed = 0;
  double jitter = 0.01;
  std::int32_t steps = 12;
  std::vector<sim::SlowRank> slow_ranks = {};
  std::vector<sim::SlowLink> slow_links = {};
  Held held = {};
  std::int64_t batch = 4;
  bool like_gpus = false;
  Computed computed = {};
};

const Model& model() {
  static const Model model = good(load_model(TESSERA_SOURCE_DIR "/examples/models/gpt2.json"));
  return model;
}

analysis::Trace record(const Run& run, const std::string& path) {
  sim::Cluster cluster = good(sim::load_cluster(run.setup.cluster, run.setup.nodes));
  if (run.like_gpus) cluster.spread = {};
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < cluster.ranks(); ++rank) ranks.push_back(rank);
  auto writer = good(storage::TraceWriter::create(path));
  const Held held = run.held ? run.held : [](auto, Rank, Bytes peak) { return peak; };
  const Computed computed = run.computed ? run.computed : [](auto, Rank, Time t) { return t; };
  HeldSink sink(*writer, held, computed);
  sim::SimulateOptions options{.cluster = cluster,
                               .stack = good(sim::load_profile("eager")),
                               .seed = run.seed,
                               .jitter = run.jitter,
                               .slow_ranks = run.slow_ranks,
                               .slow_links = run.slow_links,
                               .scheme = run.setup.scheme,
                               .steps = run.steps,
                               .recorded_ranks = ranks,
                               .records_memory = false,
                               .sink = &sink};
  options.training.batch = run.batch;
  options.training.sequence_length = 1024;
  good(sim::simulate(model(), options).status());
  good(sink.finish());
  return good(analysis::Trace::open(path));
}

struct Count {
  int right = 0, other = 0, missed = 0;
};

class Bench {
 public:
  Bench(std::string folder, bool lists) : folder_(std::move(folder)), lists_(lists) {}

  /// The first finding is of that kind and rank; -1: of any.
  void find(const std::string& group, const Run& run, FindingKind kind, Rank rank) {
    const auto findings = good(analysis::findings_of(record(run, folder_ + "/a.tessera")));
    Count& count = counts_[group];
    const bool named =
        !findings.empty() && findings[0].kind == kind && (rank < 0 || findings[0].rank == rank);
    ++(named ? count.right : findings.empty() ? count.missed : count.other);
    if (!named) list(group, run, findings.empty() ? "nothing" : findings[0].title);
  }
  void find_nothing(const std::string& group, const Run& run) {
    const auto findings = good(analysis::findings_of(record(run, folder_ + "/a.tessera")));
    ++(findings.empty() ? counts_[group].right : counts_[group].other);
    if (!findings.empty()) list(group, run, findings[0].title);
  }
  /// The first cause has one of the texts, which `|` parts; "": there is none.
  void compare(const std::string& group, const Run& before, const Run& after,
               const std::string& cause) {
    const auto a = record(before, folder_ + "/a.tessera");
    const auto b = record(after, folder_ + "/b.tessera");
    const auto causes = good(analysis::compare(a, b)).causes;
    const bool none = causes.empty();
    bool named = cause.empty() && none;
    for (std::size_t from = 0; !none && !cause.empty() && from < cause.size();) {
      const std::size_t end = std::min(cause.find('|', from), cause.size());
      named |= causes[0].what.find(cause.substr(from, end - from)) != std::string::npos;
      from = end + 1;
    }
    Count& count = counts_[group];
    ++(named ? count.right : none ? count.missed : count.other);
    if (!named) list(group, after, none ? "nothing" : causes[0].what);
  }

  void print() const {
    Count sum;
    fmt::print("{:<44}{:>7}{:>7}{:>7}\n", "", "right", "other", "none");
    for (const auto& [group, count] : counts_) {
      fmt::print("{:<44}{:>7}{:>7}{:>7}\n", group, count.right, count.other, count.missed);
      sum.right += count.right;
      sum.other += count.other;
      sum.missed += count.missed;
    }
    fmt::print("{:<44}{:>7}{:>7}{:>7}\n", "all", sum.right, sum.other, sum.missed);
  }

 private:
  void list(const std::string& group, const Run& run, const std::string& named) const {
    if (!lists_) return;
    fmt::print("{}, {}, seed {}: {}\n", group, run.setup.name, run.seed, named);
  }

  std::string folder_;
  bool lists_;
  std::map<std::string, Count> counts_;
};

std::vector<Setup> setups() {
  return {{"fully_shard, 1 node", 1, FullyShardOptions{}},
          {"fully_shard, 2 nodes", 2, FullyShardOptions{}},
          {"hybrid, 2 nodes", 2, FullyShardOptions{.shard_group = 8}},
          {"hybrid, 4 nodes", 4, FullyShardOptions{.shard_group = 8}},
          {"replicate, 2 nodes", 2, ReplicateOptions{}},
          {"zero3, 1 node", 1, Zero3Options{}}};
}

Rank ranks_of(const Setup& setup) { return 8 * setup.nodes; }

void find_clean(Bench& bench) {
  std::uint64_t seed = 1000;
  for (const Setup& setup : setups()) {
    for (int k = 0; k < 24; ++k) {
      bench.find_nothing("clean", {setup, ++seed, k % 2 == 0 ? 0.01 : 0.03});
    }
  }
}

void find_slow_ranks(Bench& bench) {
  std::uint64_t seed = 2000;
  for (const double factor : {1.1, 1.15, 1.2, 1.5}) {
    for (const Setup& setup : setups()) {
      for (const Rank rank : {Rank{0}, Rank{5}, ranks_of(setup) - 1}) {
        bench.find(fmt::format("slow rank, {}", factor),
                   {.setup = setup, .seed = ++seed, .slow_ranks = {{rank, factor}}},
                   FindingKind::slow_rank, rank);
      }
    }
  }
}

void find_slow_links(Bench& bench) {
  std::uint64_t seed = 3000;
  for (const double factor : {1.2, 1.5, 2.0, 4.0}) {
    for (const std::size_t k : {2, 3}) {  // hybrid
      const Setup setup = setups()[k];
      for (const Index node : {0, setup.nodes - 1}) {
        for (int again = 0; again < 3; ++again) {
          bench.find(fmt::format("slow link of one of {} nodes, {}", setup.nodes, factor),
                     {.setup = setup, .seed = ++seed, .slow_links = {{node, factor}}},
                     FindingKind::slow_link, 8 * node);
        }
      }
    }
  }
}

/// Sizes of steps differ by up to so much of the peak.
Bytes noisy(Bytes peak, std::int32_t step, Rank rank, double share) {
  const auto drawn =
      hash32(hash32(static_cast<std::uint32_t>(step)) ^ static_cast<std::uint32_t>(rank));
  return Bytes{peak.value - static_cast<std::int64_t>(share * static_cast<double>(peak.value) *
                                                      (drawn / 4294967296.0))};
}

struct Leak {
  const char* name;
  std::int32_t every;  // steps
  Rank ranks;          // the first of them from rank 3 on; 0: all
  double noise;        // of the peak
};

void find_leaks(Bench& bench) {
  constexpr double each = 0.01;  // of the peak
  std::uint64_t seed = 4000;
  for (const Leak& leak :
       {Leak{"each step", 1, 0, 0}, Leak{"every second step", 2, 0, 0},
        Leak{"every third step", 3, 0, 0}, Leak{"one rank", 1, 1, 0},
        Leak{"two ranks, every second step", 2, 2, 0}, Leak{"sizes differ by 1 %", 1, 0, 0.01}}) {
    for (const Setup& setup : setups()) {
      const Held held = [leak](std::int32_t step, Rank rank, Bytes peak) {
        const bool leaks = leak.ranks == 0 || (rank >= 3 && rank < 3 + leak.ranks);
        const auto kept = static_cast<std::int64_t>(each * static_cast<double>(peak.value));
        const Bytes usual =
            rank == 1 ? Bytes{peak.value * 5 / 4} : peak;  // who holds most does not leak
        return noisy(leaks ? usual + Bytes{kept * (step / leak.every)} : usual, step, rank,
                     leak.noise);
      };
      bench.find(fmt::format("leak, {}", leak.name),
                 {.setup = setup, .seed = ++seed, .steps = 24, .held = held},
                 FindingKind::memory_growth, leak.ranks == 0 ? -1 : 3);
    }
  }
  for (const double noise : {0.0, 0.01, 0.1}) {
    for (const Setup& setup : setups()) {
      // Memory of the first steps is kept for good, and sizes differ.
      const Held held = [noise](std::int32_t step, Rank rank, Bytes peak) {
        return noisy(step < 2 ? Bytes{peak.value * 9 / 10} : peak, step, rank, noise);
      };
      bench.find_nothing("no leak, sizes differ",
                         {.setup = setup, .seed = ++seed, .steps = 24, .held = held});
    }
  }
}

/// Schemes and machines that the other groups do not have.
std::vector<Setup> other_setups() {
  return {{"full_shard, A100", 2, Fsdp1Options{}, "dgx-a100"},
          {"shard_grad_op, V100", 2, Fsdp1Options{.strategy = ShardingStrategy::shard_grad_op},
           "dgx-2"},
          {"zero1, A100", 2, Zero12Options{.stage = 1}, "dgx-a100"},
          {"zero2, H100", 2, Zero12Options{.stage = 2}},
          {"sharded_data_parallel, A100", 1, ShardedDataParallelOptions{}, "dgx-a100"}};
}

/// Faults of other kinds, by what a rank does in which steps.
void find_others(Bench& bench) {
  std::uint64_t seed = 6000;
  const auto slower = [](auto when, double factor) {
    return [when, factor](std::int32_t step, Rank rank, Time compute) {
      return when(step, rank) ? static_cast<Time>(factor * static_cast<double>(compute)) : compute;
    };
  };
  for (const Setup& setup : other_setups()) {
    for (int k = 0; k < 8; ++k) bench.find_nothing("clean, other schemes", {setup, ++seed, 0.02});
    const auto find = [&](const char* group, Run run, FindingKind kind, Rank rank) {
      run.setup = setup;
      run.seed = ++seed;
      run.steps = 16;
      bench.find(group, run, kind, rank);
    };
    using enum FindingKind;
    find("two slow ranks", {.slow_ranks = {{2, 1.2}, {6, 1.2}}}, slow_rank, -1);
    find("a slow node", {.computed = slower([](auto, Rank rank) { return rank < 4; }, 1.2)},
         slow_rank, 0);
    find("slow from step 8 on",
         {.computed = slower([](auto step, Rank rank) { return rank == 3 && step >= 8; }, 1.3)},
         slow_rank, 3);
    find("slow in every second step",
         {.computed = slower([](auto step, Rank rank) { return rank == 3 && step % 2 == 0; }, 1.3)},
         slow_rank, 3);
    const auto more = [](auto when, double each) {
      return [when, each](std::int32_t step, Rank rank, Bytes peak) {
        return Bytes{peak.value + static_cast<std::int64_t>(each * when(step, rank) *
                                                            static_cast<double>(peak.value))};
      };
    };
    find("one rank holds 30 % more",
         {.held = more([](auto, Rank rank) { return rank == 4 ? 1 : 0; }, 0.3)}, unbalanced_memory,
         4);
    find("leak of the last half",
         {.held = more([](auto step, Rank) { return std::max(step - 8, 0); }, 0.02)}, memory_growth,
         -1);
  }
}

void compare_changes(Bench& bench) {
  const Setup replicate{"replicate", 2, ReplicateOptions{}};
  std::uint64_t seed = 5000;
  const auto of = [&](const Setup& setup) {
    return Run{.setup = setup, .seed = ++seed, .steps = 6};
  };
  for (int again = 0; again < 4; ++again) {
    for (const std::int64_t cap : {1'000'000, 4'000'000, 100'000'000}) {
      Setup capped = replicate;
      std::get<ReplicateOptions>(capped.scheme).bucket_cap = Bytes{cap};
      bench.compare("compare, other buckets", of(replicate), of(capped), "other collectives");
    }
    Setup hooked = replicate;
    std::get<ReplicateOptions>(hooked.scheme).comm_hook = fp16_compress_hook();
    bench.compare("compare, compressed buckets", of(replicate), of(hooked), "other collectives");
    for (const Setup& setup : setups()) {
      Run like = of(setup), other = of(setup), slow = of(setup), larger = of(setup);
      like.like_gpus = other.like_gpus = slow.like_gpus = larger.like_gpus = true;
      slow.slow_ranks = {{3, 1.1}};
      larger.batch = 5;
      bench.compare("compare, nothing changed", like, other, "");
      bench.compare("compare, slow rank", like, slow, "rank 3 computes longer");
      bench.compare("compare, larger batch", like, larger, "compute of the median rank");
    }
    const Setup hybrid = setups()[2];
    Run before = of(hybrid), slow = of(hybrid);
    before.like_gpus = slow.like_gpus = true;
    slow.slow_links = {{1, 3.0}};
    bench.compare("compare, slow link", before, slow,
                  "transfers that compute does not hide|longer collectives run beside");
  }
}

void print_findings(const std::vector<std::string>& traces) {
  for (const std::string& path : traces) {
    const auto findings = good(analysis::findings_of(good(analysis::Trace::open(path))));
    fmt::print("{}: {} findings\n", path, findings.size());
    for (const analysis::Finding& finding : findings) {
      fmt::print("  {}. {}\n", finding.title, finding.evidence);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    fmt::print(stderr, "bench_planted FOLDER [-v]\n");
    return 2;
  }
  if (arguments[0] == "--findings") {
    print_findings({arguments.begin() + 1, arguments.end()});
    return 0;
  }
  Bench bench(arguments[0], arguments.size() > 1 && arguments[1] == "-v");
  find_clean(bench);
  find_slow_ranks(bench);
  find_slow_links(bench);
  find_leaks(bench);
  find_others(bench);
  compare_changes(bench);
  bench.print();
  return 0;
}
