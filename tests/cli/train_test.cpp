// SPDX-License-Identifier: Apache-2.0
// `tessera train` and `tessera generate` from end to end, with a model that is tiny.
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/cli/tiny_run.h"

namespace tessera::test {

TEST_CASE("train says per step what happened, to people and to programs", "[cli][train]") {
  prepare();
  const ProgramRun run = train("--json log.json --peak-flops 1e9");
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  CHECK(run.output.find("gpt: ") == 0);
  CHECK(run.output.find("step 6/6 | loss ") != std::string::npos);
  CHECK(run.output.find("tokens/s | MFU ") != std::string::npos);
  const auto lines = lines_of("log.json");
  REQUIRE(lines.size() == 6);
  CHECK(lines[5]["step"] == 6);
  CHECK(lines[5]["tokens"] == 32);
  CHECK(lines[5]["mfu"].get<double>() > 0);
  CHECK(lines[5]["memory_bytes"].get<double>() > 0);
  CHECK(lines[5]["loss"].get<double>() < lines[0]["loss"].get<double>());
}

TEST_CASE("CSV and event files have the numbers of the JSON lines, also of a run that goes on",
          "[cli][train]") {
  prepare();
  for (const char* old : {"logged", "log.json", "log.csv", "events"}) {
    std::filesystem::remove_all(run_folder() + old);
  }
  const std::string files = "--json log.json --csv log.csv --tensorboard events -q ";
  REQUIRE(train(files + "--save logged --save-every 4 --keep 0").exit_code == 0);
  REQUIRE(train(files + "--resume logged/step-000004 --validation text.txt").exit_code == 0);
  std::istringstream csv(text_of("log.csv"));
  std::string line;
  std::getline(csv, line);
  CHECK(line.find("step,loss,validation_loss,grad_norm,learning_rate,") == 0);
  const auto json = lines_of("log.json");
  CHECK(json.size() == 8);
  for (const auto& one : json) {
    REQUIRE(std::getline(csv, line));
    const std::size_t comma = line.find(',');
    CHECK(line.substr(0, comma) == std::to_string(one["step"].get<int>()));
    CHECK(std::stof(line.substr(comma + 1)) == one["loss"].get<float>());
    CHECK(std::count(line.begin(), line.end(), ',') == 11);
  }
  CHECK_FALSE(std::getline(csv, line));
  std::size_t events = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run_folder() + "events")) {
    events += entry.path().filename().string().starts_with("events.out.tfevents.") ? 1 : 0;
  }
  CHECK(events == 2);
  CHECK(text_of("events/run.toml").find("tensorboard = \"events\"") != std::string::npos);
}

TEST_CASE("four simulated ranks lose what one that accumulates does", "[cli][train]") {
  prepare();
  REQUIRE(train("-q --accumulation 4 --json one.json").exit_code == 0);
  for (const std::string scheme : {"fully_shard", "zero3", "sharded_data_parallel"}) {
    const ProgramRun run =
        train("-q --runtime simulator --ranks 4 --json four.json --scheme " + scheme);
    INFO(run.messages);
    REQUIRE(run.exit_code == 0);
    CHECK(run.output.empty());
    CHECK(losses_of("four.json") == losses_of("one.json"));
  }
}

TEST_CASE("a resumed run goes on bit by bit, with another scheme", "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "saved");
  std::filesystem::remove(run_folder() + "rest.json");  // a resumed run would go on with it
  REQUIRE(train("-q --json whole.json").exit_code == 0);
  const ProgramRun half = train("-q --schedule cosine --save saved --save-every 3 --keep 0");
  INFO(half.messages);
  REQUIRE(half.exit_code == 0);
  const ProgramRun rest =
      train("-q --resume saved/step-000003 --scheme zero3 --json rest.json --trace rest.tessera");
  INFO(rest.messages);
  REQUIRE(rest.exit_code == 0);
  const auto whole = losses_of("whole.json");
  CHECK(losses_of("rest.json") == std::vector<double>(whole.begin() + 3, whole.end()));
  const ProgramRun report = run_tessera("report rest.tessera");
  CHECK(report.exit_code == 0);
  CHECK(report.output.find("zero3") != std::string::npos);
}

TEST_CASE("an imported checkpoint goes on bit by bit where nobody counts samples", "[cli][train]") {
  prepare();
  write("one.txt", "all is one sample");  // so that every step sees the same
  const std::string one = "train gpt.json --data one.txt --threads 1 -q --schedule constant ";
  for (const char* old : {"native", "whole", "foreign", "taken", "gone-on"}) {
    std::filesystem::remove_all(run_folder() + old);
  }
  REQUIRE(run_tessera(one + "--steps 2 --save native").exit_code == 0);
  REQUIRE(run_tessera(one + "--steps 5 --save whole --json whole.json").exit_code == 0);
  REQUIRE(run_tessera("checkpoint export native foreign --format dcp").exit_code == 0);
  REQUIRE(run_tessera("checkpoint import foreign gpt.json taken").exit_code == 0);
  const ProgramRun run = run_tessera(one +
                                     "--steps 5 --resume taken --save gone-on --json gone-on.json "
                                     "--runtime simulator --ranks 1 --scheme zero3");
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  CHECK(run.messages.find("PyTorch DCP said nothing of samples, learning rate and loss scale") !=
        std::string::npos);
  const auto whole = lines_of("whole.json"), rest = lines_of("gone-on.json");
  REQUIRE(rest.size() == 3);
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(rest[k]["step"] == whole[k + 2]["step"]);
    CHECK(rest[k]["loss"] == whole[k + 2]["loss"]);
  }
  const auto weights = [](const std::string& folder) {
    REQUIRE(run_tessera("checkpoint export " + folder + " " + folder + ".st").exit_code == 0);
    return text_of(folder + ".st");
  };
  CHECK(weights("whole") == weights("gone-on"));
}

TEST_CASE("states in bfloat16 are saved and resumed with their bits, by any scheme",
          "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "moments");
  const std::string options = "-q --optimizer-dtype bf16 ";
  REQUIRE(train(options + "--json moments.json --save moments --save-every 3 --keep 0 "
                          "--export whole.safetensors")
              .exit_code == 0);
  const auto whole = lines_of("moments.json");
  for (const char* scheme : {"replicate", "fully_shard --runtime simulator --ranks 1",
                             "zero2 --offload-optimizer cpu"}) {
    std::filesystem::remove(run_folder() + "moments-rest.json");
    const ProgramRun rest = train(options +
                                  "--json moments-rest.json --resume moments/step-000003 "
                                  "--export rest.safetensors --scheme " +
                                  scheme);
    INFO(rest.messages);
    REQUIRE(rest.exit_code == 0);
    const auto resumed = lines_of("moments-rest.json");
    REQUIRE(resumed.size() == 3);
    for (std::size_t k = 0; k < 3; ++k) CHECK(resumed[k]["loss"] == whole[k + 3]["loss"]);
    CHECK(text_of("rest.safetensors") == text_of("whole.safetensors"));
  }
  REQUIRE(train("-q --trace plain.tessera --export plain.safetensors").exit_code == 0);
  CHECK(text_of("plain.safetensors") != text_of("whole.safetensors"));
  const ProgramRun other = train("-q --resume moments/step-000003");
  CHECK(other.messages.find("--optimizer-dtype was") != std::string::npos);
  // What is refused leaves an earlier trace alone.
  const std::string before = text_of("plain.tessera");
  CHECK(train("-q --dtype bf16 --recompute norm --trace plain.tessera").exit_code == 2);
  CHECK(text_of("plain.tessera") == before);
}

TEST_CASE("a run in float16 keeps its scale when it is resumed", "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "halves");
  const std::string options = "-q --dtype float16 --loss-scale-interval 2 ";
  REQUIRE(train(options + "--loss-scale 4194304 --json halves.json --save halves --save-every 3 "
                          "--keep 0")
              .exit_code == 0);
  const ProgramRun rest =
      train(options + "--loss-scale 8 --json halves-rest.json --resume halves/step-000003");
  INFO(rest.messages);
  REQUIRE(rest.exit_code == 0);
  const auto whole = lines_of("halves.json");
  CHECK(whole[0]["loss_scale"] == 4194304);
  CHECK(whole[2]["skipped_steps"] >= 1);
  CHECK(whole[5]["loss_scale"] < 4194304);
  const auto resumed = lines_of("halves-rest.json");
  REQUIRE(resumed.size() == 3);
  for (std::size_t k = 0; k < 3; ++k) {
    for (const char* key : {"loss", "loss_scale", "skipped_steps"}) {
      CHECK(resumed[k][key] == whole[k + 3][key]);
    }
  }
  const ProgramRun seen = train("--dtype fp16 --loss-scale 64");
  CHECK(seen.output.find(" | scale 64, 0 skipped | lr ") != std::string::npos);
}

namespace {

// What a run says that gets `signal` after its third step, and its exit code.
ProgramRun stopped_by(const std::string& signal, const std::string& options) {
  const std::string folder = run_folder();
  write("stop.sh",
        "cd '" + folder + "' || exit 1\nrm -rf kept stop.json; : > stop.json\n" + TESSERA_PROGRAM +
            " train gpt.json --data text.txt --batch 2 --threads 1 -q --steps 100000000 "
            "--json stop.json " +
            options + " > stop.out 2> stop.err & pid=$!\n" +
            "k=0; while [ $(wc -l < stop.json) -lt 3 ] && [ $k -lt 600 ]; do k=$((k+1)); "
            "sleep 0.1; done\nkill -" +
            signal +
            " $pid\nk=0; while kill -0 $pid 2>/dev/null && [ $k -lt 600 ]; do k=$((k+1)); sleep "
            "0.1; done\nkill -KILL $pid 2>/dev/null; wait $pid\n");
  const int status = std::system(("sh '" + folder + "stop.sh'").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of("stop.out"), text_of("stop.err")};
}

}  // namespace

TEST_CASE("a signal ends training with a checkpoint and a whole trace, and it goes on from there",
          "[cli][train]") {
  prepare();
  struct Asked {
    const char* signal;
    int exit_code;
  };
  for (const Asked asked : {Asked{"HUP", 129}, Asked{"TERM", 143}, Asked{"USR1", 138}}) {
    const ProgramRun run = stopped_by(asked.signal, "--save kept --trace stop.tessera");
    INFO(asked.signal << ": " << run.messages);
    CHECK(run.exit_code == asked.exit_code);
    CHECK(run.messages.find(std::string("tessera: stopped by SIG") + asked.signal +
                            " after step ") == 0);
    CHECK(run.messages.find("; the last checkpoint is kept/step-") != std::string::npos);
    CHECK(run.messages.find(": go on with --resume kept\n") != std::string::npos);
    CHECK(run_tessera("trace verify stop.tessera").exit_code == 0);
    const std::size_t done = lines_of("stop.json").size();
    const ProgramRun on = run_tessera("train gpt.json --data text.txt --batch 2 --threads 1 -q " +
                                      std::string("--resume kept --json on.json --steps ") +
                                      std::to_string(done + 1));
    INFO(on.messages);
    CHECK(on.exit_code == 0);
    CHECK(lines_of("on.json").back()["step"] == done + 1);
  }
  const ProgramRun unsaved = stopped_by("TERM", "");
  CHECK(unsaved.exit_code == 143);
  CHECK(unsaved.messages.find("; there is no checkpoint, as there is no --save\n") !=
        std::string::npos);
}

TEST_CASE("a simulated run that saves leaves the same trace every time", "[cli][train]") {
  prepare();
  const std::string options =
      "--runtime simulator --ranks 2 --scheme zero3 --save-every 1 --save saved ";
  for (const std::string trace : {"one.tessera", "two.tessera"}) {
    std::filesystem::remove_all(run_folder() + "saved");
    REQUIRE(train("-q " + options + "--trace " + trace).exit_code == 0);
  }
  CHECK(text_of("one.tessera").size() > 1000);
  CHECK(text_of("one.tessera") == text_of("two.tessera"));
}

TEST_CASE("the loss of what is not trained on is in lines and objects", "[cli][train]") {
  prepare();
  const ProgramRun run = train("--json log.json --validation text.txt --validate-every 4");
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  const auto lines = lines_of("log.json");
  REQUIRE(lines.size() == 6);
  for (const auto& line : lines) {
    const std::int64_t step = line["step"];
    CHECK(line.contains("validation_loss") == (step == 4 || step == 6));
  }
  const double last = lines.back()["validation_loss"];
  CHECK(last > 3);
  CHECK(last < 6);
  CHECK(run.output.find("| validation ") != std::string::npos);
  CHECK(train("-q --validation-fraction 0.2 --validate-every 0 --json held.json").exit_code == 0);
  CHECK_FALSE(lines_of("held.json")[4].contains("validation_loss"));
  CHECK(lines_of("held.json")[5].contains("validation_loss"));
  CHECK(refusal("--data text.txt --validation text.txt --validation-fraction 0.1") ==
        "tessera: --validation and --validation-fraction both say what to validate on: leave one "
        "out\n");
  write("few.txt", "abc");
  CHECK(refusal("--data text.txt --validation few.txt")
            .find("few.txt (for validation): 3 tokens are too few") != std::string::npos);
}

TEST_CASE("a window of attention acts, and what does not act is named", "[cli][train]") {
  prepare();
  write("mistral.json", R"({"model_type": "mistral", "vocab_size": 256, "hidden_size": 16,
      "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
      "num_key_value_heads": 1, "max_position_embeddings": 32, "sliding_window": 8})");
  const std::string command = "train mistral.json --data text.txt --steps 1 --batch 1 --threads 1";
  const auto wide = run_tessera(command);
  CHECK(wide.exit_code == 0);
  CHECK(wide.messages.empty());
  CHECK(run_tessera(command + " --sequence-length 8").messages.empty());
  write("odd.json", R"({"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 1,
      "vocab_size": 256, "n_positions": 16, "activation_function": "mish"})");
  CHECK(run_tessera("train odd.json --data text.txt --steps 1")
            .messages.find("activation_function is mish, computed are: gelu_new") !=
        std::string::npos);
  write("more.json", R"({"model_type": "gpt2", "n_layer": 1, "colour": "red",
      "quantization_config": {"bits": 4}})");
  const std::string named =
      "tessera: warning: more.json: keys that mean nothing to gpt2 here are "
      "ignored: colour\ntessera: warning: more.json: quantization_config is "
      "ignored: weights are counted as float32, not quantized\n";
  for (const char* command_of :
       {"wrap more.json --ranks 2", "estimate more.json", "simulate more.json -o more.tessera"}) {
    CHECK(run_tessera(command_of).messages == named);
  }
}

TEST_CASE("data and options that make no sense are refused in a sentence", "[cli][train]") {
  prepare();
  write("empty.txt", "");
  write("short.txt", "abc");
  CHECK(refusal("--data none.txt") ==
        "tessera: none.txt: cannot be read (No such file or directory): name a text file or a file "
        "of tokens\n");
  CHECK(refusal("--data empty.txt") == "tessera: empty.txt: is empty: nothing to train on\n");
  CHECK(refusal("--data short.txt").find("tessera: short.txt: 3 tokens are too few") == 0);
  CHECK(refusal("--data text.txt --data-format uint16").find("is text, no tokens of 2 bytes") !=
        std::string::npos);
  write("far.bin", "\1\1\2\2");
  CHECK(refusal("--data far.bin").find("beyond the model's vocabulary") != std::string::npos);
  CHECK(refusal("--data text.txt --param-dtype bf16").find("choose one dtype for both") !=
        std::string::npos);
  CHECK(refusal("--data text.txt --loss-scale 8") ==
        "tessera: --loss-scale is for float16 alone, but this run trains in float32: leave it out, "
        "or give --dtype float16\n");
  CHECK(refusal("--data text.txt --tf32 --dtype bf16") ==
        "tessera: --tf32 is about float32 matrices, but this run trains in bfloat16: leave it "
        "out\n");
  CHECK(refusal("--data text.txt --loss-scale-interval 8 --dtype bf16")
            .find("tessera: --loss-scale-interval is for float16 alone, but this run trains in "
                  "bfloat16") == 0);
  CHECK(refusal("--data text.txt --warmup 5").find("the warmup must lie within") !=
        std::string::npos);
  CHECK(refusal("--data text.txt --resume a --load b").find("leave one out") != std::string::npos);
  CHECK(refusal("--data text.txt --save-every 2").find("name the folder with --save") !=
        std::string::npos);
  CHECK(refusal("--data text.txt --passes train").find("unknown option --passes") !=
        std::string::npos);
  CHECK(refusal("--data text.txt --trace text.txt").find("exists and is no trace") !=
        std::string::npos);
  CHECK(refusal("--data text.txt --json nowhere/log.json").find("there is no folder nowhere") !=
        std::string::npos);
  CHECK(refusal("--data text.txt --load .").find("is a folder: name a safetensors file") !=
        std::string::npos);
}

TEST_CASE("a resumed run with nothing left to do says so", "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "all");
  REQUIRE(train("-q --save all").exit_code == 0);
  const ProgramRun again = train("-q --resume all");
  CHECK(again.exit_code == 0);
  CHECK(again.messages.find("nothing is left to train") != std::string::npos);
}

}  // namespace tessera::test
