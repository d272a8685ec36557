// SPDX-License-Identifier: Apache-2.0
// Two processes of `tessera train` that were not started alike.
#include <fmt/format.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace tessera {
namespace {

namespace fs = std::filesystem;

class TwoProcesses {
 public:
  TwoProcesses() {
    fs::remove_all(path_);
    fs::create_directories(path_);
    write("gpt.json", R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "n_ctx": 16, "n_embd": 16,
        "n_head": 2, "n_layer": 1, "n_positions": 16, "vocab_size": 256})");
    std::string text;
    for (int k = 0; k < 60; ++k) text += "one of us reads what the other reads. ";
    write("text.txt", text);
    text[text.size() / 2] = 'X';
    write("other.txt", text);
  }
  ~TwoProcesses() { fs::remove_all(path_); }

  // The exit code and what was said.
  std::pair<int, std::string> train(const std::string& of_first, const std::string& of_second) {
    const auto rank = [](const std::string& options) {
      const bool data = options.find("--data ") != std::string::npos;
      return fmt::format("-n 1 '{}' train gpt.json {} --batch 2 --threads 1 -q {}", TESSERA_PROGRAM,
                         data ? "" : "--data text.txt", options);
    };
    const std::string command =
        fmt::format("cd '{}' && {} {} : {} > out 2>&1 < /dev/null", path_.string(), TESSERA_MPIRUN,
                    rank("--steps 2 " + of_first), rank("--steps 2 " + of_second));
    const int status = std::system(command.c_str());
    std::ifstream file(path_ / "out", std::ios::binary);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            std::string(std::istreambuf_iterator<char>(file), {})};
  }

  bool has(const std::string& name) const { return fs::exists(path_ / name); }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }

  const fs::path path_ = fs::path(TESSERA_BINARY_DIR) / "tests" / "scratch" / "mpi_disagreement";
};

struct Pair {
  const char* first;
  const char* second;
  const char* said;
};

TEST_CASE("ranks that disagree end before the first step, naming both values", "[mpi]") {
  TwoProcesses processes;
  const Pair pairs[] = {
      {"--seed 1", "--seed 2", "--seed is 1 on rank 0, but 2 on rank 1"},
      {"", "--learning-rate 0.01", "--learning-rate is 0.001 on rank 0, but 0.01 on rank 1"},
      {"--weight-decay 0.2", "--weight-decay 0.3", "--weight-decay is 0.2 on rank 0, but 0.3"},
      {"--schedule linear", "--schedule wsd", "--schedule is linear on rank 0, but wsd"},
      {"--max-grad-norm 1", "", "--max-grad-norm is 1 on rank 0, but"},
      {"--betas 0.8,0.9", "--betas 0.8,0.99", "--betas is 0.8,0.9 on rank 0, but 0.8,0.99"},
      {"--epsilon 1e-6", "--epsilon 1e-7", "--epsilon is 1e-6 on rank 0, but 1e-7"},
      {"--warmup 1", "--warmup 2", "--warmup is 1 on rank 0, but 2"},
      {"--sequence-length 8", "--sequence-length 16", "--sequence-length is 8 on rank 0, but 16"},
      {"--scheme zero2", "--scheme zero1", "--scheme is zero2 on rank 0, but zero1"},
      {"--dtype bfloat16", "--dtype float16", "--dtype is bfloat16 on rank 0, but float16"},
      {"--data text.txt", "--data other.txt", "--data is 2280 tokens with checksum"},
      {"--validation text.txt", "--validation other.txt", "--validation is 2280 tokens with"}};
  for (const Pair& pair : pairs) {
    INFO("mpirun " << pair.first << " : " << pair.second);
    const auto [code, said] = processes.train(pair.first, pair.second);
    INFO(said);
    CHECK(code == 2);
    CHECK(said.find("ranks disagree before the first step: ") != std::string::npos);
    CHECK(said.find(pair.said) != std::string::npos);
  }
}

TEST_CASE("ranks may differ in what they print and in where their files are", "[mpi]") {
  TwoProcesses processes;
  const auto [code, said] = processes.train("--json log --seed 0", "--log-every 2");
  INFO(said);
  CHECK(code == 0);
  CHECK(processes.has("log"));
}

}  // namespace
}  // namespace tessera
