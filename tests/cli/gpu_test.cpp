// SPDX-License-Identifier: Apache-2.0
// `--device cuda` from end to end: where a piece is missing, and on one fake GPU.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

// A folder with the program and the module that `module` makes of its place.
class Installation {
 public:
  explicit Installation(const std::string& name) : folder_(run_folder() + name) {
    fs::create_directories(folder_);
    fs::remove(folder_ / "tessera");
    fs::remove(module());
    std::error_code other_disk;
    fs::create_hard_link(TESSERA_PROGRAM, folder_ / "tessera", other_disk);
    if (other_disk) fs::copy_file(TESSERA_PROGRAM, folder_ / "tessera");
  }
  fs::path module() const { return folder_ / "libtessera_cuda.so"; }
  ProgramRun run(const std::string& arguments, const std::string& environment = "") const {
    return run_tessera(arguments, environment, folder_ / "tessera");
  }

 private:
  fs::path folder_;
};

Installation with_stand_in() {
  Installation made("gpu");
  fs::create_symlink(TESSERA_CUDA_STAND_IN, made.module());
  return made;
}

constexpr const char* training = "train tiny.json --data tiny.txt --batch 2 --steps 3 --threads 1 ";

void prepare() {
  std::ofstream(run_folder() + "tiny.json") << R"({"architectures": ["GPT2LMHeadModel"],
      "model_type": "gpt2", "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05,
      "n_ctx": 16, "n_embd": 16, "n_head": 2, "n_layer": 1, "n_positions": 16,
      "vocab_size": 256})";
  std::ofstream text(run_folder() + "tiny.txt");
  for (int k = 0; k < 40; ++k) text << "to train is to see it all again. ";
}

// What doctor says keeps the program from using GPUs; train must say the same and end.
std::string refusal(const Installation& installation) {
  const ProgramRun doctor = installation.run("doctor --json");
  CHECK(doctor.exit_code == 0);
  const auto said = nlohmann::json::parse(doctor.output)["carriers"]["cuda"].get<std::string>();
  const ProgramRun train = installation.run(training + std::string("--device cuda"));
  CHECK(train.exit_code == 2);
  CHECK(train.output.empty());
  CHECK(train.messages == "tessera: " + said + "\n");
  // Nothing else needs a GPU.
  CHECK(installation.run(training + std::string("-q --device auto")).exit_code == 0);
  CHECK(installation.run("ops tiny.json --sequence-length 8").exit_code == 0);
  return said;
}

}  // namespace

TEST_CASE("each missing piece of CUDA is named, and all else works without", "[cli][gpu]") {
  prepare();
  SECTION("no module") {
    CHECK(refusal(Installation("none")) ==
          "libtessera_cuda.so is not there: configure with -DTESSERA_CUDA=ON, or run without GPUs");
  }
  SECTION("a module whose libraries are missing") {
    const Installation made("unloadable");
    std::ofstream(made.module()) << "no library";
    const std::string said = refusal(made);
    CHECK(said.starts_with("cannot open " + made.module().string() + ": "));
    CHECK(said.ends_with("; install the CUDA toolkit's runtime and NCCL"));
  }
  const Installation made = with_stand_in();
  const auto with = [&](const char* what) {
    std::ofstream(run_folder() + "stand_in.txt") << what;
    const std::string said = refusal(made);
    fs::remove(run_folder() + "stand_in.txt");
    return said;
  };
  SECTION("a module of another build") {
    CHECK(with("other build")
              .ends_with("belongs to another version of this program: install both "
                         "together"));
  }
  SECTION("no driver") {
    CHECK(with("no driver").starts_with("there is no NVIDIA driver here: CUDA 13.0 needs one"));
  }
  SECTION("an old driver") {
    CHECK(with("old driver").starts_with("the NVIDIA driver is for CUDA 12.4, this build needs"));
  }
  SECTION("no device") {
    CHECK(with("no device").starts_with("the NVIDIA driver is here, but no GPU that it offers"));
  }
  SECTION("an old NCCL") { CHECK(with("old NCCL").starts_with("NCCL 2.18.5 does not fit")); }
}

TEST_CASE("a GPU trains as the CPU does", "[cli][gpu]") {
  prepare();
  const Installation gpu = with_stand_in();
  const auto losses = [&](const std::string& options) {
    const ProgramRun run = gpu.run(training + ("-q --json log.json " + options));
    INFO(run.messages);
    CHECK(run.exit_code == 0);
    std::vector<double> all;
    std::ifstream file(run_folder() + "log.json");
    for (std::string line; std::getline(file, line);) {
      all.push_back(nlohmann::json::parse(line)["loss"]);
    }
    fs::remove(run_folder() + "log.json");
    return all;
  };
  const auto expected = losses("--scheme zero3");
  CHECK(expected.size() == 3);
  CHECK(losses("--scheme zero3 --device cuda") == expected);
  CHECK(losses("--scheme zero3 --device auto") == expected);
}

TEST_CASE("options of GPUs that exclude each other are refused", "[cli][gpu]") {
  prepare();
  const Installation gpu = with_stand_in();
  const auto said = [&](const std::string& options) {
    const ProgramRun run = gpu.run(training + ("--device cuda " + options));
    CHECK(run.exit_code == 2);
    return run.messages;
  };
  CHECK(said("--windows on --deterministic") ==
        "tessera: --windows on lets NCCL add in an order that it does not tell: give "
        "--deterministic or --windows on, not both\n");
  CHECK(said("--windows on --scheme sharded_data_parallel") ==
        "tessera: --windows on needs what ranks exchange at equal offsets, but owners have memory "
        "that others lack: use another scheme, or --windows off\n");
}

TEST_CASE("ranks of torchrun meet at the port after its own", "[cli][gpu]") {
  prepare();
  const Installation gpu = with_stand_in();
  const auto said = [&](const std::string& options, const std::string& environment) {
    const ProgramRun run = gpu.run(training + options, "RANK=0 WORLD_SIZE=1 " + environment);
    CHECK(run.exit_code == 2);
    return run.messages;
  };
  const ProgramRun alone = gpu.run(training + std::string("-q --device cuda"),
                                   "RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=29500");
  INFO(alone.messages);
  CHECK(alone.exit_code == 0);
  CHECK(said("--device cuda", "") ==
        "tessera: MASTER_ADDR is not set: with RANK and WORLD_SIZE it names the host of rank 0\n");
  CHECK(said("--device cuda", "MASTER_ADDR=localhost MASTER_PORT=65535") ==
        "tessera: MASTER_PORT is not set to a port: ranks find each other at the one after it\n");
  CHECK(said("", "MASTER_ADDR=localhost MASTER_PORT=29500") ==
        "tessera: ranks that torchrun starts find each other on GPUs only: add --device cuda, or "
        "start them by mpirun\n");
}

}  // namespace tessera::test
