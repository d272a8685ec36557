// SPDX-License-Identifier: Apache-2.0
// `tessera train` on four processes, from end to end, beside the simulator's run of it.
#include <fmt/format.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/storage/trace_reader.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// What a run left behind that does not depend on time.
struct Left {
  std::vector<double> losses, validation, scales, skipped;
  std::vector<std::string> operations;
};

class Folder {
 public:
  Folder() {
    fs::remove_all(path_);
    fs::create_directories(path_);
    write("gpt.json", R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "n_ctx": 16, "n_embd": 16,
        "n_head": 2, "n_layer": 2, "n_positions": 16, "vocab_size": 256})");
    std::string text;
    for (int k = 0; k < 60; ++k) text += "four of us read what one of us reads. ";
    write("text.txt", text);
  }
  ~Folder() { fs::remove_all(path_); }

  Left train(const std::string& name, const std::string& launcher, const std::string& options) {
    const std::string command = fmt::format(
        "cd '{}' && {} '{}' train gpt.json --data text.txt --validation-fraction 0.2 "
        "--validate-every 10 --validation-batches 6 --batch 2 --steps 20 --threads 1 -q "
        "--json {}.json --trace {}.tessera {} > {}.out 2>&1 < /dev/null",
        path_.string(), launcher, TESSERA_PROGRAM, name, name, options, name);
    const int status = std::system(command.c_str());
    INFO(command << "\n" << text_of(name + ".out"));
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    return {column(name, "loss"), column(name, "validation_loss"), column(name, "loss_scale"),
            column(name, "skipped_steps"), operations(name)};
  }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  std::string text_of(const std::string& name) const {
    std::ifstream file(path_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::vector<double> column(const std::string& name, const char* key) const {
    std::vector<double> values;
    std::ifstream file(path_ / (name + ".json"));
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.contains(key)) values.push_back(json[key]);
    }
    return values;
  }

  std::vector<std::string> operations(const std::string& name) const {
    const auto trace = storage::TraceReader::open((path_ / (name + ".tessera")).string());
    INFO(trace.status().message());
    REQUIRE(trace.ok());
    const auto ops = trace->ops();
    REQUIRE(ops.ok());
    std::vector<std::string> lines;
    for (const storage::OpRow& o : *ops) {
      const auto after = trace->waited_for(o.id);
      REQUIRE(after.ok());
      lines.push_back(
          fmt::format("{} {} stream {} communicator {} step {}.{} {} {} {} bytes {} "
                      "after {}",
                      o.id, o.label, o.stream, o.communicator, o.step, o.micro_batch, o.unit,
                      o.module, name_of(o.reason), o.bytes.value, fmt::join(*after, ",")));
    }
    return lines;
  }

  const fs::path path_ = fs::path(TESSERA_BINARY_DIR) / "tests" / "scratch" / "mpi_train";
};

TEST_CASE("four processes train as the simulator says, operation by operation", "[mpi]") {
  Folder folder;
  Left first;
  for (const char* options :
       {"--scheme fully_shard", "--scheme full_shard", "--scheme shard_grad_op",
        "--scheme replicate", "--scheme sharded_data_parallel", "--scheme zero2",
        "--scheme zero3 --offload-optimizer cpu"}) {
    INFO(options);
    const Left simulated =
        folder.train("simulated", "", fmt::format("--runtime simulator --ranks 4 {}", options));
    const Left real = folder.train("real", TESSERA_MPIRUN " -n 4", options);
    CHECK(simulated.losses.size() == 20);
    CHECK(simulated.validation.size() == 2);
    CHECK(simulated.operations.size() > 800);
    CHECK(real.losses == simulated.losses);
    CHECK(real.validation == simulated.validation);
    CHECK(real.operations == simulated.operations);
    if (first.losses.empty()) first = real;
    CHECK(real.losses == first.losses);
    CHECK(real.validation == first.validation);
  }
}

TEST_CASE("four processes skip what overflows in float16, as the simulator says", "[mpi]") {
  Folder folder;
  const std::string options = "--scheme zero3 --dtype float16 --loss-scale 67108864";
  const Left simulated = folder.train("simulated", "", "--runtime simulator --ranks 4 " + options);
  const Left real = folder.train("real", TESSERA_MPIRUN " -n 4", options);
  CHECK(simulated.skipped.back() > 2);
  CHECK(simulated.skipped.back() < 18);
  CHECK(real.losses == simulated.losses);
  CHECK(real.scales == simulated.scales);
  CHECK(real.skipped == simulated.skipped);
  CHECK(real.operations == simulated.operations);
}

}  // namespace
}  // namespace tessera
