// SPDX-License-Identifier: Apache-2.0
// What a critical path predicts is what a run gains that is simulated again with that change.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace tessera {
namespace {

using test::run_folder;
using test::run_tessera;

nlohmann::json report_of(const std::string& flags, const std::string& name) {
  const auto made = run_tessera("simulate " + test::example_model("gpt2") +
                                " -q --cluster dgx-h100 --steps 3 " + flags + " -o " + name);
  INFO(made.messages);
  REQUIRE(made.exit_code == 0);
  const auto report = run_tessera("report --json " + name);
  REQUIRE(report.exit_code == 0);
  return nlohmann::json::parse(report.output);
}

double gain_of(const nlohmann::json& report, const std::string& what) {
  double sum = 0;
  for (const auto& row : report["critical_path"]["rows"]) {
    const bool operation = row["group"] == "operation";
    const bool collective =
        operation && row["what"].get<std::string>().find('_') != std::string::npos;
    if (row["what"] == what || (what == "collectives" && collective)) {
      sum += row["step_shorter_ns"].get<double>();
    }
  }
  return sum;
}

// ns of the step that the path is of.
double step_of(const nlohmann::json& report, const nlohmann::json& chosen) {
  const auto step = chosen["critical_path"]["step"].get<std::size_t>();
  return report["steps"][step]["max_ns"].get<double>();
}

/// What is predicted is at most what is gained, and at least `least` of it, up to 2 %.
void check_gain(const std::string& flags, const std::string& before, const std::string& after,
                const std::string& what, double least = 1) {
  const nlohmann::json a = report_of(flags + " " + before, "before.tessera");
  const nlohmann::json b = report_of(flags + " " + after, "after.tessera");
  const double gained = step_of(a, a) - step_of(b, a);
  const double predicted = gain_of(a, what);
  INFO(what << ": predicted " << predicted << " ns, gained " << gained << " ns of " << step_of(a, a)
            << " in " << a["critical_path"].dump(2));
  CHECK(gained > 0);
  CHECK(predicted >= (least - 0.02) * gained);
  CHECK(predicted <= 1.02 * gained);
}

std::string profile(const std::string& name, const nlohmann::json& changes) {
  nlohmann::json json{
      {"tessera_profile", 1}, {"begins_with", "eager"}, {"name", name}, {"source", "a test"}};
  json.update(changes);
  std::ofstream(run_folder() + name + ".json") << json;
  return "--profile " + name + ".json";
}

TEST_CASE("a step gains what its critical path predicts", "[cli][path]") {
  // Beside a collective kernels would run faster, too.
  const std::string alone = profile("alone", {{"contention", 0}});
  check_gain("--batch 8 --jitter 0.02 " + alone, "--slow-rank 5:1.25", "--slow-rank 5:1.125",
             "rank 5");
  check_gain("--batch 8 --nodes 2 --scheme shard_grad_op", alone,
             profile("quick", {{"contention", 0}, {"collectives", 0.9}}), "collectives");
  // The host may wait for more than a trace tells.
  const auto host = [](const std::string& name, int share) {
    return profile(name, {{"host_kernel_ns", 300 * share},
                          {"host_module_ns", 500 * share},
                          {"host_collective_ns", 1000 * share}});
  };
  check_gain("--batch 1", host("slow", 100), host("less", 90), "host", 0.4);
}

}  // namespace
}  // namespace tessera
