// SPDX-License-Identifier: Apache-2.0
// tessera collective and tessera cluster.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/collective/collective_rows.h"
#include "tests/cli/program.h"

namespace tessera::test {
namespace {

nlohmann::json rows_of(const std::string& arguments) {
  const ProgramRun run = run_tessera("collective " + arguments + " --json");
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  return nlohmann::json::parse(run.output)["rows"];
}

void check_refusal(const std::string& arguments, const std::string& hint) {
  const ProgramRun run = run_tessera(arguments);
  INFO("tessera " << arguments << "\n" << run.messages);
  CHECK(run.exit_code == 2);
  CHECK(run.output.empty());
  CHECK(std::count(run.messages.begin(), run.messages.end(), '\n') == 1);
  CHECK(run.messages.find(hint) != std::string::npos);
}

// As nccl-tests print it; `root`: versions before 2.12 did not.
std::string nccl_row(std::int64_t bytes, double us, const char* root = "-1",
                     const char* wrong = "0") {
  const double algbw = static_cast<double>(bytes) / us / 1e3;
  const std::string times = "  " + std::to_string(us) + "  " + std::to_string(algbw) + "  " +
                            std::to_string(1.75 * algbw) + "  " + wrong;
  return "  " + std::to_string(bytes) + "  " + std::to_string(bytes / 4) + "  float  sum  " + root +
         times + times + "\n";
}

}  // namespace

TEST_CASE("a table says by which algorithm a size goes and how fast", "[cli][collective]") {
  const ProgramRun run =
      run_tessera("collective all_gather --cluster dgx-h100 --nodes 2 --sizes 32K:16G");
  CHECK(run.exit_code == 0);
  CHECK(run.output.find("all_gather: dgx-h100, 16 ranks on 2 nodes, NCCL 2.28") !=
        std::string::npos);
  for (const char* word : {"busbw GB/s", "LL128", "Simple", "17,179,869,184"}) {
    CHECK(run.output.find(word) != std::string::npos);
  }
}

TEST_CASE("the numbers of a table agree with each other", "[cli][collective]") {
  for (const auto& row : rows_of("all --nodes 2 --sizes 1M,64M")) {
    const double us = row["time_us"];
    const double bytes = row["bytes"];
    const double algbw = row["algbw_gbytes_per_s"];
    CHECK(algbw == Approx(bytes / us / 1e3));
    const std::string op = row["op"];
    const double factor = op == "all_reduce"                    ? 2.0 * 15 / 16
                          : op == "broadcast" || op == "reduce" ? 1
                                                                : 15.0 / 16;
    CHECK(row["busbw_gbytes_per_s"].get<double>() == Approx(algbw * factor));
    const double parts = op == "all_reduce" || op == "broadcast" || op == "reduce" ? 1 : 16;
    CHECK(row["count"].get<double>() == bytes / 4 / parts);
  }
  CHECK(rows_of("all --sizes 1M").size() == 6);
}

TEST_CASE("groups are told by GPUs of a node, ranks, or size and stride", "[cli][collective]") {
  const auto us = [](const std::string& group) {
    return rows_of("all_gather --nodes 4 --sizes 1G " + group)[0]["time_us"].get<double>();
  };
  CHECK(us("") == us("--ranks 0-31"));
  CHECK(us("--ranks-per-node 1") == us("--ranks 0,8,16,24"));
  CHECK(us("--ranks-per-node 1") == us("--group-size 4 --group-stride 8"));
  CHECK(us("--group-size 8") < us("--ranks 4-11"));  // across two nodes
}

TEST_CASE("another version of NCCL may choose otherwise", "[cli][collective]") {
  const std::string ask = "all_gather --nodes 64 --ranks-per-node 1 --sizes 4K ";
  CHECK(rows_of(ask)[0]["algorithm"] == "PAT");
  CHECK(rows_of(ask + "--nccl 2.19")[0]["algorithm"] == "Ring");
}

TEST_CASE("a plot is an SVG file", "[cli][collective]") {
  REQUIRE(run_tessera("collective all --plot busbw.svg").exit_code == 0);
  std::ifstream file(run_folder() + "busbw.svg");
  std::ostringstream text;
  text << file.rdbuf();
  CHECK(text.str().starts_with("<svg "));
  CHECK(text.str().find("all_to_all") != std::string::npos);
  CHECK(text.str().ends_with("</svg>\n"));
}

TEST_CASE("what no collective is called is refused", "[cli][collective]") {
  check_refusal("collective", "OPERATION is required");
  check_refusal("collective all_gathr", "'all_gathr' is no collective: did you mean all_gather?");
  check_refusal("collective xyzzy", "choose all, all_gather, ");
  check_refusal("collective all --sizes 1X", "'1X' is no size");
  check_refusal("collective all --sizes 0", "'0' is no size");
  check_refusal("collective all_gather --sizes 3,31",
                "--sizes: all_gather among 8 ranks has at least 32 bytes, a float32 of each");
  const ProgramRun few = run_tessera("collective all_gather --sizes 16,64 --json");
  CHECK(few.messages.find("at least 32 bytes, a float32 of each: smaller sizes are left out") !=
        std::string::npos);
  CHECK(nlohmann::json::parse(few.output)["rows"].size() == 1);
  check_refusal("collective all --sizes 1M,", "'' is no size");
  check_refusal("collective all --sizes 9999999T", "is no size");
  check_refusal("collective all --sizes 1G:1M", "1M is less than 1G");
  check_refusal("collective all --ranks 3", "at least 2 ranks");
  check_refusal("collective all --ranks 8-9", "only ranks 0 to 7");
  check_refusal("collective all --ranks 0-99", "only ranks 0 to 7");
  check_refusal("collective all --ranks-per-node 9", "have 8 GPUs");
  check_refusal("collective all --group-size 9", "needs rank 8, but there are 8 ranks: add nodes");
  check_refusal("collective all --group-size 3", "8 ranks are no whole number of such groups");
  check_refusal("collective all --group-size 2 --group-stride 3", "--ranks takes any");
  check_refusal("collective all --group-size 2 --ranks 0-1", "give one of ");
  check_refusal("collective all --nccl 2.99", "--nccl");
  check_refusal("collective all --plot /nowhere/x.svg", "cannot be written");
}

TEST_CASE("a table says how sure it is, and JSON too", "[cli][collective]") {
  const ProgramRun run = run_tessera("collective all_reduce --sizes 1M:4M");
  CHECK(run.output.find("how sure: time within ") != std::string::npos);
  const ProgramRun far = run_tessera("collective all_reduce --cluster mi300x --sizes 1M:4M --json");
  const auto validated = nlohmann::json::parse(far.output)["validated"]["all_reduce"];
  CHECK(validated["near"] == false);
  CHECK(validated["text"].get<std::string>().find("nothing near was ever validated") !=
        std::string::npos);
}

TEST_CASE("nothing was validated with another version of NCCL than the cluster's",
          "[cli][collective]") {
  const auto sure = [](const std::string& version) {
    return run_tessera("collective all_reduce --sizes 1M:4M --nccl " + version).output;
  };
  CHECK(sure("2.28").find("how sure: time within ") != std::string::npos);
  CHECK(sure("2.19").find("its cluster is dgx-h100 as shipped") != std::string::npos);
}

TEST_CASE("a version of NCCL that is older than the GPUs is refused", "[cli][collective]") {
  check_refusal("collective all_reduce --nccl 2.19 --cluster dgx-b200",
                "--nccl 2.19: is older than the GPUs of dgx-b200: give 2.27 or newer");
  check_refusal("collective all_reduce --cluster DGX-H100", "did you mean dgx-h100");
}

TEST_CASE("sizes and collectives are named once", "[cli][collective]") {
  check_refusal("collective all_reduce --sizes 1M,1024K", "--sizes: 1M is there twice");
  check_refusal("collective all_gather all_gather", "'all_gather' is named twice");
  check_refusal("collective all_gather all", "'all_gather' is named twice");
  check_refusal("collective all all_gather", "'all_gather' is named twice");
}

TEST_CASE("sizes are written as people do", "[collective]") {
  CHECK(cli::short_size(Bytes{32 << 10}) == "32K");
  CHECK(cli::short_size(Bytes{1000}) == "1000");
  CHECK(cli::short_size(Bytes{std::int64_t{3} << 30}) == "3G");
  const auto sizes = cli::parse_sizes("3K:13K");
  REQUIRE(sizes.ok());
  CHECK(*sizes == std::vector<Bytes>{Bytes{3072}, Bytes{6144}, Bytes{12288}});
}

TEST_CASE("a log of nccl-tests becomes a cluster file", "[cli][collective]") {
  std::string log =
      "# nThread 1\n# all_reduce_perf -b 32K\n#\n#       size  count type redop root\n";
  for (const auto& row : rows_of("all_reduce --sizes 32K:1G")) {
    const double us = row["time_us"].get<double>() + 12;
    const auto bytes = row["bytes"].get<std::int64_t>();
    log += nccl_row(bytes, us);
  }
  std::ofstream(run_folder() + "node.log") << log;
  const ProgramRun run = run_tessera("calibrate node.log --cluster dgx-h100 -o calibrated.json");
  INFO(run.output << run.messages);
  REQUIRE(run.exit_code == 0);
  CHECK(run.output.starts_with("calibrated.json: 16 rows, mean error "));
  const double before = rows_of("all_reduce --sizes 4M")[0]["time_us"];
  const double after = rows_of("all_reduce --sizes 4M --cluster calibrated.json")[0]["time_us"];
  CHECK(after == Approx(before + 12).epsilon(0.05));
  check_refusal("calibrate missing.log -o x.json", "cannot read the log missing.log");
  check_refusal("calibrate calibrated.json -o x.json", "has no row of nccl-tests");
  check_refusal("calibrate node.log --least 1G -o x.json", "a fit needs 4");
  check_refusal("calibrate node.log --ranks-per-node 9 -o x.json", "have 8 GPUs");
  check_refusal("calibrate node.log", "--output is required");
  check_refusal("calibrate node.log ./node.log -o x.json", "./node.log is given twice");
  check_refusal("calibrate node.log -o ./node.log", "--output ./node.log is read as a log");
  check_refusal("calibrate node.log -o y.json --profile-output y.json", "choose two");
  std::filesystem::copy_file(run_folder() + "node.log", run_folder() + "copy.log",
                             std::filesystem::copy_options::overwrite_existing);
  check_refusal("calibrate node.log copy.log -o x.json", "copy.log is a copy of another log");
  check_refusal("calibrate node.log --least 32K,64K -o x.json", "--least: '32K,64K' is no size");
  check_refusal("collective all_reduce --plot ''", "--plot is given nothing");
  check_refusal("collective all_reduce --plot node.log", "node.log: exists and is no SVG");
  check_refusal("collective all_reduce --plot p.png", "--plot p.png: plots are SVG files");
  check_refusal("collective all_reduce --plot -", "--plot -: is no name of a file");
}

TEST_CASE("a messy log of nccl-tests is read, refused or warned of", "[cli][collective]") {
  const auto rows = [](const char* root, const char* wrong, const std::string& tag = "") {
    std::string text;
    for (int k = 20; k < 26; ++k) {
      text += tag + nccl_row(std::int64_t{1} << k, 20.0 + (1 << (k - 20)) * 5, root, wrong);
    }
    return text;
  };
  const auto calibrated = [](const std::string& log, const std::string& more = "") {
    std::ofstream(run_folder() + "messy.log") << log;
    return run_tessera("calibrate messy.log -o messy.json" + more);
  };
  const std::string name = "# Collective test starting: all_reduce_perf\n";
  const std::string plain = calibrated(name + rows("-1", "0")).output;
  CHECK(plain.find("6 rows") != std::string::npos);
  // Versions without a root; tags of mpirun and srun; lines that end in two characters.
  CHECK(calibrated(name + rows("", "2e-07")).output == plain);
  CHECK(calibrated(name + rows("-1", "0", "[1,0]<stdout>:")).output == plain);
  CHECK(calibrated(name + rows("-1", "0", "0: ")).output == plain);
  CHECK(calibrated(name + rows("-1", "N/A")).messages.empty());
  const ProgramRun twice = calibrated(name + rows("-1", "0") + rows("-1", "0"));
  CHECK(twice.output == plain);
  CHECK(twice.messages.find("6 rows are as others in size and time") != std::string::npos);
  const ProgramRun two = calibrated(
      name + rows("-1", "0") + "# Collective test starting: all_gather_perf\n" + rows("-1", "0"));
  CHECK(two.output.find("12 rows") != std::string::npos);
  const ProgramRun wrong = calibrated(
      name + rows("-1", "0") + nccl_row(1 << 27, 1000, "-1", "17") + "  4096  1024  fl\n" +
      "node1: Test NCCL failure common.cu:958 'unhandled cuda error'\n");
  CHECK(wrong.output == plain);
  CHECK(wrong.messages.find("1 rows had wrong results") != std::string::npos);
  CHECK(wrong.messages.find("1 lines begin like rows and cannot be read") != std::string::npos);
  CHECK(wrong.messages.find("the program failed: node1: Test NCCL") != std::string::npos);
  check_refusal("calibrate messy.log -o x.json --operation all_gather", "all_reduce ran");
  calibrated(name +
             "  1048576  262144  float  sum  -1  0.04  26.2  45.9  0  0.04  26.2  45.9  0\n");
  check_refusal("calibrate messy.log -o x.json", "line 2: its size divided by its time");
}

TEST_CASE("clusters are listed, shown and checked", "[cli][cluster]") {
  const ProgramRun list = run_tessera("cluster list");
  CHECK(list.exit_code == 0);
  CHECK(list.output.find("dgx-h100") != std::string::npos);
  const ProgramRun shown = run_tessera("cluster show dgx-h100");
  REQUIRE(shown.exit_code == 0);
  std::ofstream(run_folder() + "shown.json") << shown.output;
  const ProgramRun check = run_tessera("cluster check shown.json");
  CHECK(check.exit_code == 0);
  CHECK(check.output == "shown.json: dgx-h100, 8 x H100 SXM 80 GB a node\n");
  std::ofstream(run_folder() + "wrong.json") << R"({"tessera_cluster": 1, "nam": "x"})";
  check_refusal("cluster check wrong.json", "wrong.json: nam is unknown: did you mean 'name'?");
  check_refusal("cluster show nothing", "tessera cluster list names them");
  check_refusal("cluster", "cluster does nothing by itself: add list, show, check");
  check_refusal("cluster show", "NAME is required");
}

}  // namespace tessera::test
