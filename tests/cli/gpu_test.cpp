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
      "vocab_size": 256, "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0})";
  std::ofstream text(run_folder() + "tiny.txt");
  for (int k = 0; k < 40; ++k) text << "to train is to see it all again. ";
}

// What doctor says keeps the program from using GPUs; train must say the same and end.
std::string refusal(const Installation& installation) {
  const ProgramRun doctor = installation.run("doctor --json");
  CHECK(doctor.exit_code == 0);
  const auto said = nlohmann::json::parse(doctor.output)["backends"]["cuda"].get<std::string>();
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
  SECTION("an old GPU") {
    CHECK(with("V100").starts_with("stand-in has compute capability 7.0, but kernels need 8.0"));
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
  const auto in_fp8 = losses("--scheme zero3 --matmul-dtype fp8");
  CHECK(in_fp8 != expected);
  CHECK(losses("--scheme zero3 --device cuda --matmul-dtype fp8") == in_fp8);
}

TEST_CASE("what Hopper alone has is refused on other GPUs", "[cli][gpu]") {
  prepare();
  const Installation gpu = with_stand_in();
  const auto refusal_of = [&](const std::string& flags) {
    const ProgramRun run = gpu.run(training + ("--device cuda " + flags));
    CHECK(run.exit_code == 2);
    return run.messages;
  };
  CHECK(refusal_of("--matmul-dtype fp8 --sequence-length 9").find("must be multiples of 16") !=
        std::string::npos);
  std::ofstream(run_folder() + "stand_in.txt") << "A100";
  const std::string here = "tessera: stand-in has compute capability 8.0, but ";
  CHECK(refusal_of("--matmul-dtype fp8").starts_with(here + "cuBLASLt multiplies fp8"));
  CHECK(refusal_of("--hopper-attention").starts_with(here + "attention for Hopper"));
  CHECK(gpu.run(training + std::string("--device cuda -q")).exit_code == 0);
  fs::remove(run_folder() + "stand_in.txt");
}

TEST_CASE("a GPU run without cuFile refuses --use-gds and trains with files all the same",
          "[cli][gpu]") {
  prepare();
  const Installation gpu = with_stand_in();
  const std::string in_files = training + std::string("--scheme zero3 --persistence-threshold 0 ") +
                               "--offload-param nvme --nvme-path . --nvme-smallest 0 ";
  CHECK(gpu.run(in_files + "--device cuda -q").exit_code == 0);
  const ProgramRun refused = gpu.run(in_files + "--use-gds --device cuda");
  CHECK(refused.exit_code == 2);
  CHECK(refused.messages == "tessera: use_gds needs NVIDIA's cuFile: the stand-in has none\n");
  CHECK(gpu.run("doctor").output.find("use_gds needs NVIDIA's cuFile") != std::string::npos);
  CHECK(gpu.run(in_files + "--use-gds -q").exit_code == 0);  // a CPU has one memory
}

TEST_CASE("a run says how much of it CUDA graphs were, and so do its log and its trace",
          "[cli][gpu]") {
  prepare();
  const Installation gpu = with_stand_in();
  const ProgramRun run = gpu.run(
      training + std::string("--device cuda --cuda-graphs --json log.json --trace g.tessera"));
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  nlohmann::json last;
  std::ifstream file(run_folder() + "log.json");
  for (std::string line; std::getline(file, line);) last = nlohmann::json::parse(line);
  file.close();
  fs::remove(run_folder() + "log.json");
  const auto launched = last["graphs"]["launched"].get<int>();
  CHECK(launched > 0);
  CHECK(last["graphs"]["first"] > 0);
  const std::string text = std::to_string(launched) + " of ";
  const auto at = run.output.rfind(text);
  REQUIRE(at != std::string::npos);
  const std::string said = run.output.substr(at, run.output.find('\n', at) - at);
  CHECK(said.find(" computations were launched as CUDA graphs; ") != std::string::npos);
  const ProgramRun report = run_tessera("report g.tessera");
  CHECK(report.output.find("cuda_graphs: " + text) != std::string::npos);
  const ProgramRun json = run_tessera("report g.tessera --json");
  const auto diagnostics = nlohmann::json::parse(json.output)["diagnostics"];
  REQUIRE(diagnostics.size() == 1);
  CHECK(diagnostics[0]["message"] == said);
  CHECK(diagnostics[0]["severity"] == "info");
}

TEST_CASE("an option works on a backend, or a sentence says what to do", "[cli][gpu]") {
  prepare();
  const Installation gpu = with_stand_in();
  const std::string on_cpu =
      " is about GPUs, but this run computes on CPUs: add --device cuda, or leave it out";
  const std::string simulated =
      " is about GPUs, but the simulator computes on CPUs: leave it out, or choose another "
      "--runtime";
  struct Backend {
    std::string options;
    std::string refusal;  // of what is about GPUs; "": it is one, or may be
  };
  const std::vector<Backend> backends = {{"", on_cpu},
                                         {"--device cpu", on_cpu},
                                         {"--device auto", ""},
                                         {"--device cuda", ""},
                                         {"--runtime simulator", simulated},
                                         {"--runtime simulator --device cuda", simulated}};
  const std::vector<std::string> about_gpus = {
      "--windows on",      "--tf32",
      "--cuda-graphs",     "--profile-nccl --trace o.tessera",
      "--share-gpu",       "--pinned-memory 0.001",
      "--hopper-attention"};
  const std::vector<std::string> anywhere = {"--windows off", "--windows auto", "--deterministic"};
  const auto said = [&](const std::string& options) {
    const ProgramRun run = gpu.run(training + ("-q " + options));
    CHECK(run.exit_code == (run.messages.empty() ? 0 : 2));
    return run.messages;
  };
  for (const Backend& backend : backends) {
    for (const std::string& option : anywhere) {
      INFO(backend.options << " " << option);
      CHECK(said(backend.options + " " + option).empty());
    }
    for (const std::string& option : about_gpus) {
      INFO(backend.options << " " << option);
      std::string name = option.substr(0, option.find(" --trace"));
      if (option.starts_with("--pinned")) name = "--pinned-memory";
      const std::string expected =
          backend.refusal.empty() ? "" : "tessera: " + name + backend.refusal + "\n";
      CHECK(said(backend.options + " " + option) == expected);
    }
  }
}

TEST_CASE("options of GPUs that exclude each other are refused", "[cli][gpu]") {
  prepare();
  const Installation gpu = with_stand_in();
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"--windows on --deterministic",
       "--windows on lets NCCL add in an order that it does not tell: give --deterministic or "
       "--windows on, not both"},
      {"--windows on --scheme sharded_data_parallel",
       "--windows on needs what ranks exchange at equal offsets, but owners have memory that "
       "others lack: use another scheme, or --windows off"},
      {"--windows on --share-gpu",
       "--windows on needs GPUs that reach each other's memory, which --share-gpu switches off: "
       "leave one out"},
      {"--profile-nccl",
       "--profile-nccl says something in a trace: add --trace FILE, or leave it out"},
      {"--ranks 4",
       "--ranks 4 is about the simulator: add --runtime simulator, or start so many processes by "
       "mpirun"}};
  for (const auto& [options, sentence] : refused) {
    const ProgramRun run = gpu.run(training + ("--device cuda " + options));
    CHECK(run.exit_code == 2);
    CHECK(run.output.empty());
    CHECK(run.messages == "tessera: " + sentence + "\n");
  }
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
