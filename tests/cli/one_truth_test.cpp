// SPDX-License-Identifier: Apache-2.0
// `tessera report` and the inspector say the same about a trace, to the digit.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "inspector/app/app.h"
#include "inspector/render/headless.h"
#include "inspector/widgets/format.h"
#include "tessera/analysis/median.h"
#include "tests/cli/program.h"

namespace tessera::inspector {
namespace {

using Json = nlohmann::json;

struct Both {
  Json report;                             // report --json --ranks all
  std::unique_ptr<App> app;                // on the same trace
  std::map<std::string, std::string> run;  // what its panels' fields said
};

Both both_of(const std::string& arguments) {
  const std::string path = test::run_folder() + "one_truth.tessera";
  INFO(arguments);
  const auto simulated = test::run_tessera("simulate " + test::example_model("gpt-tiny") + " " +
                                           arguments + " -q -o " + path);
  INFO(simulated.messages);
  REQUIRE(simulated.exit_code == 0);
  Both both;
  both.report = Json::parse(test::run_tessera("report --json --ranks all " + path).output);
  auto app = App::open({.path = path});
  REQUIRE(app.ok());
  both.app = std::move(app).value();
  both.app->state().selection.reset();  // then the details are all of the run's
  Headless screen(1600, 1000, ThemeKind::dark, 1);
  screen.step([&](Surface& ui) { both.app->draw(ui); });
  both.run = both.app->state().fields;
  return both;
}

void check_fields(const Both& both) {
  const Json& report = both.report;
  const Json& time = report["time"];
  const auto share = [&](const char* part, const char* whole) {
    return format_percent(time[part].get<double>() / time[whole].get<double>());
  };
  const auto bytes = [](const Json& value) { return Bytes{value.get<std::int64_t>()}; };
  CHECK(both.run.at("run/Step, median") == format_time(report["step_time_steady_ns"]));
  CHECK(both.run.at("run/Tokens/s per rank") ==
        format_count(static_cast<std::int64_t>(report["tokens_per_s_per_gpu"].get<double>())));
  CHECK(both.run.at("run/MFU") == format_percent(report["mfu"]));
  CHECK(both.run.at("run/Exposed communication") == share("exposed_ns", "step_ns") + " of step");
  CHECK(both.run.at("run/Hidden by compute") == share("overlapped_ns", "communication_ns"));
  CHECK(both.run.at("run/Peak reserved") ==
        format_memory(bytes(report["memory"]["peak_reserved_bytes"])) + " of " +
            format_memory(bytes(report["run"]["memory_per_rank_bytes"])));
}

/// Few ranks and steps: the model has them at once.
analysis::MetricFigures figures_of(TraceModel& model, analysis::Metric metric) {
  const analysis::MetricFigures* figures = model.metrics().figures(metric);
  REQUIRE(figures != nullptr);
  return *figures;
}

// The overview's heat map, its spread and its legend.
void check_metrics(const Both& both) {
  TraceModel& model = both.app->model();
  const analysis::MetricFigures times = figures_of(model, analysis::Metric::step_time);
  for (const Json& step : both.report["steps"]) {
    const analysis::Spread spread = analysis::spread_of(times.table, step["step"]);
    CHECK(spread.low == step["min_ns"]);
    CHECK(spread.median == step["median_ns"]);
    CHECK(spread.high == step["max_ns"]);
    CHECK(spread.highest == step["slowest_rank"]);
  }
  const auto mean = [&](analysis::Metric metric, Rank rank) {
    const analysis::MetricTable table = figures_of(model, metric).table;
    std::int64_t sum = 0;
    for (std::int32_t step = 1; step < table.steps(); ++step) sum += table.at(step, rank);
    return sum / (table.steps() - 1);
  };
  REQUIRE(both.report["ranks"].size() == static_cast<std::size_t>(model.run().ranks));
  for (const Json& rank : both.report["ranks"]) {
    CHECK(mean(analysis::Metric::step_time, rank["rank"]) == rank["step_ns"]);
    CHECK(mean(analysis::Metric::compute, rank["rank"]) == rank["compute_ns"]);
    CHECK(mean(analysis::Metric::exposed, rank["rank"]) == rank["exposed_ns"]);
    CHECK(mean(analysis::Metric::wait, rank["rank"]) == rank["wait_ns"]);
  }
}

// What the details say about each collective of the first recorded rank, added up.
void check_collectives(const Both& both) {
  TraceModel& model = both.app->model();
  struct Sums {
    Time transfer = 0, wait = 0;
    std::vector<double> bandwidths;
  };
  std::map<std::string, Sums> sums;
  const Rank rank = model.run().recorded_ranks.front();
  for (const LaneData& lane : model.rank(rank).lanes) {
    for (std::size_t i = 0; i < lane.spans.op.size(); ++i) {
      const analysis::SpanFacts facts = model.facts({rank, lane.spans.stream, lane.spans.op[i]});
      if (!facts.collective) continue;
      Sums& sum = sums[std::string(name_of(model.op(lane.spans.op[i]).kind))];
      sum.transfer += facts.transfer;
      sum.wait += facts.wait;
      if (facts.bus_bandwidth > 0) sum.bandwidths.push_back(facts.bus_bandwidth);
    }
  }
  REQUIRE(sums.size() == both.report["communication"].size());
  for (const Json& kind : both.report["communication"]) {
    const Sums& sum = sums.at(kind["kind"]);
    CHECK(sum.transfer == kind["transfer_ns"]);
    CHECK(sum.wait == kind["wait_ns"]);
    CHECK(analysis::median(sum.bandwidths) == kind["bus_bandwidth_bytes_per_s"].get<double>());
  }
}

TEST_CASE("report and inspector say the same about ten traces, to the digit", "[cli][one_truth]") {
  for (const std::string arguments :
       {"--scheme fully_shard", "--scheme fully_shard --seed 3 --jitter 0.4 --slow-rank 3:1.9",
        "--scheme full_shard --jitter 0.1", "--scheme hybrid_shard --shard-group 4 --jitter 0.2",
        "--scheme replicate --accumulation 3", "--scheme sharded_data_parallel --slow-rank 1:1.2",
        "--scheme zero1", "--scheme zero2 --overlap-comm --jitter 0.3",
        "--scheme zero3 --offload-param cpu --offload-optimizer cpu --jitter 0.1",
        "--scheme zero3 --policy compatible --shard-group 4"}) {
    INFO(arguments);
    const Both both = both_of("--nodes 1 --steps 4 " + arguments);
    check_fields(both);
    check_metrics(both);
    check_collectives(both);
  }
}

TEST_CASE("the legend of the strip of ranks names what its colours mean", "[cli][one_truth]") {
  const Both both = both_of("--nodes 1 --steps 3 --seed 3 --jitter 0.4 --slow-rank 3:1.9");
  const auto compute = figures_of(both.app->model(), analysis::Metric::compute);
  CHECK(both.run.at("scale/low") == format_time(compute.scale.low()));
  CHECK(both.run.at("scale/median") == "median " + format_time(compute.scale.median()));
  CHECK(both.run.at("scale/high") == format_time(compute.scale.high()));
  // Rank 3 is the slow one, and no other rank looks like it.
  for (Rank rank = 0; rank < both.app->model().run().ranks; ++rank) {
    const double place = compute.scale.at(compute.table.at(2, rank));
    CHECK((rank == 3 ? place > 0.9 : place < 0.8));
  }
}

}  // namespace
}  // namespace tessera::inspector
