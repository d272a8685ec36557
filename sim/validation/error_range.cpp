// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/error_range.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/validation/families.h"

namespace tessera::sim {
namespace {

// Beyond these multiples of what was validated a run is not near it any more.
constexpr double ranks_beyond = 4, parameters_beyond = 4, tokens_beyond = 4, nodes_beyond = 2,
                 bytes_beyond = 4, micro_batches_beyond = 4;
// Differences that a sentence names.
constexpr std::size_t named = 4;

// What keeps a run from being one of a family's. Another machine or scheme says less about a run
// than another size of the same: sizes only decide where all else is as far.
struct Difference {
  std::string text;
  int weight = 1;
};
constexpr int another_scheme = 40, another_machine = 30, another_stack = 20;

using Differences = std::vector<Difference>;

int distance(const Differences& differences) {
  int sum = 0;
  for (const Difference& difference : differences) sum += difference.weight;
  return sum;
}

// "8" or "8 to 64"
std::string range_text(const Span& span) {
  return span.least == span.most ? fmt::format("{:.0f}", span.least)
                                 : fmt::format("{:.0f} to {:.0f}", span.least, span.most);
}

bool beyond(double value, const Span& span, double times) {
  return value > span.most * times || value * times < span.least;
}

bool among(const std::vector<std::string>& known, const std::string& value) {
  return known.empty() || std::find(known.begin(), known.end(), value) != known.end();
}

// The same of how it trains.
void add_training(const SimulatedRun& run, const RunFamily& f, Differences& out) {
  const auto tokens = [&](std::int64_t of_run, const Span& span, const char* what) {
    if (of_run == 0 || !beyond(static_cast<double>(of_run), span, tokens_beyond)) return;
    out.push_back({fmt::format("{} have {} tokens", what, range_text(span))});
  };
  tokens(run.sequence, f.sequence, "its sequences");
  tokens(run.tokens, f.tokens, "its micro-batches");
  if (run.micro_batches > 0 &&
      beyond(static_cast<double>(run.micro_batches), f.micro_batches, micro_batches_beyond)) {
    out.push_back({fmt::format("its steps have {} micro-batch{}", range_text(f.micro_batches),
                               f.micro_batches.most == 1 ? "" : "es")});
  }
  if (!run.checkpointing.empty() && !among(f.checkpointing, run.checkpointing)) {
    out.push_back({fmt::format("its checkpointing is {}", fmt::join(f.checkpointing, " or "))});
  }
  if (run.offload != f.offload) {
    out.push_back({fmt::format("it offloads {}", f.offload.empty() ? "nothing" : f.offload)});
  }
  if (run.frozen != f.frozen) {
    out.push_back({f.frozen.empty() ? "all its parameters are trained"
                                    : fmt::format("it trains by {}", f.frozen),
                   another_stack});
  }
  for (const auto& [name, value] : run.options) {
    const auto seen = f.options.find(name);
    // An option of another scheme is another option.
    if (seen == f.options.end() || !among(f.schemes, run.scheme) || among(seen->second, value))
      continue;
    out.push_back({fmt::format("its {} is {}", name, fmt::join(seen->second, " or "))});
  }
  for (const std::string& beside : run.beside) out.push_back({beside});
}

// Of less than ten the ninth in ten is the worst.
std::string all_or_most(std::int64_t rows, const char* row) {
  if (rows == 1) return fmt::format("for the only {}", row);
  return rows < 10 ? fmt::format("for all {} {}s", rows, row)
                   : fmt::format("for 9 in 10 of {} {}s", rows, row);
}

// Worst first; empty: the run is near.
Differences differences(const SimulatedRun& run, const RunFamily& f) {
  Differences out;
  const auto parameters = static_cast<double>(run.parameters.value);
  if (!f.gpu.empty() && run.gpu != f.gpu) {
    out.push_back({fmt::format("its GPUs are {}", f.gpu), another_machine});
  } else if (!among(f.clusters, run.cluster)) {
    out.push_back({fmt::format("its cluster is {}", fmt::join(f.clusters, " or "))});
  }
  if (!f.profile.empty() && run.profile != f.profile) {
    out.push_back({fmt::format("its profile is {}", f.profile), another_stack});
  }
  if (!among(f.schemes, run.scheme)) {
    out.push_back({fmt::format("its scheme is {}", fmt::join(f.schemes, " or ")), another_scheme});
  }
  if (beyond(run.ranks, f.ranks, ranks_beyond)) {
    out.push_back({fmt::format("it has {} ranks", range_text(f.ranks))});
  }
  if (beyond(parameters, f.parameters, parameters_beyond)) {
    const auto [least, most] = f.parameters;
    out.push_back({least == most ? fmt::format("it has {:.2g} parameters", least)
                                 : fmt::format("it has {:.2g} to {:.2g} parameters", least, most)});
  }
  add_training(run, f, out);
  return out;
}

std::string within(double p90) {
  return fmt::format("within {:.{}f} %", 100 * p90, p90 < 0.01 ? 1 : 0);
}

std::string name_of_family(const RunFamily& family) {
  return family.name + (family.fitted ? ", which its profile was fitted to" : "");
}

std::string name_of_family(const CollectiveFamily& family) {
  return fmt::format("{} on {}", family.operation, family.cluster);
}

std::string joined(const Differences& differences) {
  std::vector<std::string> texts;
  for (const Difference& difference : differences) {
    if (texts.size() == named) {
      texts.emplace_back("more differs");
      break;
    }
    texts.push_back(difference.text);
  }
  return fmt::format("{}", fmt::join(texts, " and "));
}

// The sentence about the family that differs least from what is asked for. If none is near, those
// systems tell most that nothing was fitted to.
template <class Family, class DifferencesOf>
ErrorRange nearest(const std::vector<Family>& families, const char* number,
                   const DifferencesOf& differences_of, const char* row,
                   const UnfittedRuns& unfitted = {}) {
  const Family* found = nullptr;
  Differences apart;
  for (const Family& family : families) {
    Differences here = differences_of(family);
    const int further = found == nullptr ? -1 : distance(here) - distance(apart);
    if (further > 0 || (further == 0 && family.rows <= found->rows)) continue;
    found = &family;
    apart = std::move(here);
  }
  if (found == nullptr) return {.text = fmt::format("{}: nothing was ever validated", number)};
  const std::string seen = fmt::format("{} {} of {}", within(found->p90),
                                       all_or_most(found->rows, row), name_of_family(*found));
  if (apart.empty()) {
    return {.near = true, .p90 = found->p90, .text = fmt::format("{} {}", number, seen)};
  }
  std::string text = fmt::format("{}: nothing near was ever validated; ", number);
  if (unfitted.rows > 0) {
    text += fmt::format("systems that no profile was fitted to are {} {}; ", within(unfitted.p90),
                        all_or_most(unfitted.rows, row));
  }
  text += fmt::format("the nearest is {}, but {}", seen, joined(apart));
  return {.near = false, .p90 = std::max(found->p90, unfitted.p90), .text = std::move(text)};
}

}  // namespace

std::string to_json(const ErrorRange& range) {
  return nlohmann::ordered_json{{"near", range.near}, {"p90", range.p90}, {"text", range.text}}
      .dump();
}

ErrorRange step_time_error(const SimulatedRun& run) {
  const Families families = validated();
  return nearest(
      families.step_times, "step time",
      [&](const RunFamily& family) { return differences(run, family); }, "run", families.unfitted);
}

ErrorRange calibrated_error(std::int64_t runs, double p90) {
  return {.near = true,
          .p90 = p90,
          .text = fmt::format("step time within {:.1f} % for 9 in 10 of the {} runs that the "
                              "profile was calibrated on",
                              100 * p90, runs)};
}

ErrorRange planned_memory_error() {
  return {.near = true,
          .p90 = 0,
          .text =
              "peak memory to the byte: what tessera train itself asks for on a processor "
              "like the one that simulated"};
}

ErrorRange memory_error(const SimulatedRun& run) {
  SimulatedRun held = run;
  if (!run.memory_profile.empty()) held.profile = run.memory_profile;
  return nearest(
      validated().memory, "peak memory",
      [&](const RunFamily& family) { return differences(held, family); }, "run");
}

ErrorRange collective_error(const std::string& cluster, const CollectiveShape& shape, Bytes least,
                            Bytes most) {
  const auto same = [&](const CollectiveFamily& f) {  // but for what name_unless_changed adds
    return cluster == f.cluster || cluster.starts_with(f.cluster + ",");
  };
  const auto differences_of = [&](const CollectiveFamily& f) {
    Differences out;
    if (f.cluster != cluster) {
      // A changed machine is nearer to itself than to others.
      out.push_back({fmt::format("its cluster is {}{}", f.cluster, same(f) ? " as shipped" : ""),
                     same(f) ? 1 : another_machine});
    }
    if (f.operation != name_of(shape.kind)) {
      out.push_back({fmt::format("its operation is {}", f.operation)});
    }
    // Between two nodes is a network, within one there is none.
    const bool alike = (shape.nodes == 1) == (f.nodes.most == 1);
    if (!alike || beyond(shape.nodes, f.nodes, nodes_beyond)) {
      out.push_back({f.nodes.most == 1 ? std::string("it is of one node")
                                       : fmt::format("it is of {} nodes", range_text(f.nodes))});
    }
    if (static_cast<double>(least.value) * bytes_beyond < f.bytes.least ||
        static_cast<double>(most.value) > f.bytes.most * bytes_beyond) {
      out.push_back({fmt::format("it has {} bytes", range_text(f.bytes))});
    }
    return out;
  };
  return nearest(validated().collectives, "time", differences_of, "row");
}

std::string name_unless_changed(const Cluster& cluster) {
  return cluster.shipped ? cluster.name : cluster.name + ", changed";
}

std::string name_unless_changed(const StackProfile& profile) {
  const auto shipped = load_profile(profile.name);
  const bool same = shipped.ok() && to_json(*shipped) == to_json(profile);
  return same ? profile.name : profile.name + ", changed";
}

}  // namespace tessera::sim
