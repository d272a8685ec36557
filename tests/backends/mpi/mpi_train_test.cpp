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

  struct Ended {
    int exit_code;
    std::string said;
    std::vector<double> losses;
  };

  // Two processes without an end; `send` sends a signal after the third step, knowing the
  // launcher as $launcher.
  Ended stopped(const std::string& send) {
    fs::remove_all(path_ / "kept");
    write("stopped.json", "");
    write("stop.sh", fmt::format("cd '{}' || exit 1\n{} -n 2 '{}' train gpt.json --data text.txt "
                                 "--batch 2 --threads 1 -q --steps 100000000 --save kept --scheme "
                                 "zero2 --json stopped.json --trace stopped.tessera > stopped.out "
                                 "2>&1 < /dev/null & launcher=$!\n"
                                 "k=0; while [ $(wc -l < stopped.json) -lt 3 ] && [ $k -lt 600 ]; "
                                 "do k=$((k+1)); sleep 0.1; done\n{}\n"
                                 "k=0; while kill -0 $launcher 2>/dev/null && [ $k -lt 600 ]; "
                                 "do k=$((k+1)); sleep 0.1; done\n"
                                 "kill -KILL $launcher 2>/dev/null; wait $launcher\n",
                                 path_.string(), TESSERA_MPIRUN, TESSERA_PROGRAM, send));
    const int status = std::system(fmt::format("sh '{}/stop.sh'", path_.string()).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of("stopped.out"),
            column("stopped", "loss")};
  }

  bool has(const std::string& name) const { return fs::exists(path_ / name); }

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
      const auto waits = trace->waits(o.id, o.id + 1);
      REQUIRE(waits.ok());
      lines.push_back(
          fmt::format("{} {} stream {} communicator {} step {}.{} {} {} {} bytes {} "
                      "after {}",
                      o.id, o.label, o.stream, o.communicator, o.step, o.micro_batch, o.unit,
                      o.module, name_of(o.reason), o.bytes.value, fmt::join(waits->after, ",")));
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

TEST_CASE("a signal to one process, or to the launcher, ends all after the same step", "[mpi]") {
  Folder folder;
  struct Sent {
    const char* command;
    const char* signal;
    int exit_code;
  };
  // A launcher hands SIGUSR1 on to all; the other goes to the second process alone.
  for (const Sent& sent :
       {Sent{"kill -USR1 $launcher", "SIGUSR1", 138},
        Sent{"set -- $(cat /proc/$launcher/task/$launcher/children); kill -TERM $2", "SIGTERM",
             143}}) {
    const auto ended = folder.stopped(sent.command);
    INFO(ended.said);
    CHECK(ended.exit_code == sent.exit_code);
    const auto done = ended.losses.size();
    CHECK(done >= 3);
    CHECK(ended.said.find(fmt::format("stopped by {} after step {} of 100000000; the last "
                                      "checkpoint is kept/step-{:06}: go on with --resume kept",
                                      sent.signal, done, done)) != std::string::npos);
    CHECK(folder.has("stopped.tessera"));
    CHECK_FALSE(folder.has("stopped.tessera.partial"));
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
