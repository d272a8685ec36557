// SPDX-License-Identifier: Apache-2.0
// What `tessera train` is given to read: it acts, is refused or is named in a warning.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "tests/cli/program.h"
#include "tests/cli/tiny_run.h"

namespace tessera::test {
namespace {

// Of a run on the tiny model that takes 12 samples.
ProgramRun trained_on(const std::string& data, const std::string& options = "") {
  return run_tessera(
      "train gpt.json --batch 2 --steps 6 --threads 1 -q --data " + data + " " + options,
      "timeout 20");
}

bool says(const ProgramRun& run, const std::string& text) {
  UNSCOPED_INFO(run.messages);
  return run.messages.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("pipes and devices are refused wherever a run reads a file", "[cli][train]") {
  prepare();
  const std::string pipe = run_folder() + "pipe";
  std::filesystem::remove(pipe);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::filesystem::remove(pipe + ".jsonl");
  std::filesystem::create_symlink(pipe, pipe + ".jsonl");
  const std::string sentence =
      "pipe: is a pipe, which cannot be read twice: write what it gives to a file, and name that";
  for (const std::string input :
       {"--validation", "--load", "--tokenizer", "--deepspeed", "--plan"}) {
    const ProgramRun run = trained_on("text.txt", input + " pipe");
    CHECK(run.exit_code == 2);
    CHECK(says(run, sentence));
  }
  CHECK(says(trained_on("pipe"), sentence));
  CHECK(says(trained_on("text.txt,pipe:2"), sentence));
  CHECK(says(trained_on("pipe.jsonl"), "pipe.jsonl: is a pipe"));
  CHECK(says(trained_on("/dev/zero"), "/dev/zero: is a device"));
  for (const char* command : {"train pipe --data text.txt", "evaluate gpt.json --data pipe",
                              "generate pipe", "evaluate pipe --data text.txt"}) {
    const ProgramRun run = run_tessera(
        std::string(command) + (command[0] == 't' ? "" : " --weights w.safetensors"), "timeout 20");
    CHECK(run.exit_code == 2);
    CHECK(says(run, sentence));
  }
  CHECK(says(run_tessera("generate gpt.json --weights pipe", "timeout 20"), sentence));
}

TEST_CASE("pipes and devices are not replaced by what is written", "[cli][train]") {
  prepare();
  const std::string pipe = run_folder() + "out-pipe";
  std::filesystem::remove(pipe);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::filesystem::remove(run_folder() + "kept.tessera");
  REQUIRE(trained_on("text.txt", "--trace kept.tessera").exit_code == 0);
  write("letters.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  write("a.txt", "a");
  for (const char* command :
       {"train gpt.json --data text.txt --steps 1 --threads 1 -q --export out-pipe",
        "train gpt.json --data text.txt --steps 1 --threads 1 -q --trace out-pipe",
        "tokenize letters.json a.txt -o out-pipe", "simulate gpt.json -q --steps 1 -o out-pipe",
        "trace export kept.tessera --format csv -o out-pipe",
        "trace export kept.tessera --format sqlite -o out-pipe"}) {
    const ProgramRun run = run_tessera(command, "timeout 20");
    INFO(command << ": " << run.messages);
    CHECK(run.exit_code == 2);
    CHECK(says(run, "is a pipe"));
    CHECK(std::filesystem::is_fifo(pipe));
  }
  CHECK(says(run_tessera("tokenize letters.json a.txt -o a.bin --end-of-text ''"),
             "--end-of-text is given nothing"));
}

TEST_CASE("of several files the one that is too short is named", "[cli][train]") {
  prepare();
  write("few.txt", "few");
  const std::string few = "3 tokens are too few: a sequence of 16 needs 17";
  CHECK(says(trained_on("text.txt,few.txt"), "few.txt: " + few));
  CHECK(says(trained_on("text.txt", "--validation few.txt"), "few.txt (for validation): " + few));
  CHECK(says(trained_on("text.txt,few.txt,text.txt"), "tessera: few.txt: "));
}

TEST_CASE("files that a run never draws are named in one warning", "[cli][train]") {
  prepare();
  std::string much;
  for (int k = 0; k < 4000; ++k) much += "there is much of it, and of the other there is little. ";
  write("much.txt", much);
  write("little.txt", "little of this is here");
  write("less.txt", "less of this is here");
  CHECK(says(trained_on("much.txt,little.txt,less.txt"),
             "little.txt, less.txt: none of the 12 samples of this run is of them: train for more "
             "steps, or give them more weight"));
  CHECK(trained_on("text.txt,text.txt").messages.empty());
  write("much.jsonl", R"({"text": "something that is learned"})"
                      "\n");
  CHECK_FALSE(says(trained_on("much.jsonl,much.jsonl"), "none of the"));
}

TEST_CASE("a weight that whole samples cannot follow is warned of", "[cli][train]") {
  prepare();
  CHECK(says(trained_on("text.txt,text.txt:1e-9"),
             "text.txt: its weight of 1e-09 asks for 8.2e-08 of its 82 samples an epoch, 1 is "
             "taken"));
  CHECK_FALSE(says(trained_on("text.txt,text.txt:0.5"), "asks for"));
}

TEST_CASE("process groups that would train models apart are refused", "[cli][train]") {
  prepare();
  const std::string scheme = "--runtime simulator --ranks 4 --scheme sharded_data_parallel ";
  const std::string sentence =
      "in process groups of 2 of 4 ranks trains several models apart, of which no loss is one";
  for (const std::string groups :
       {"--process-group 2", "--process-groups '0 1,3 2'", "--process-groups '0 1'"}) {
    const ProgramRun run = trained_on("text.txt", scheme + groups);
    CHECK(run.exit_code == 2);
    CHECK(says(run, sentence));
  }
  CHECK(trained_on("text.txt", scheme + "--process-groups '3 2 1 0'").exit_code == 0);
}

TEST_CASE("dropout that a model's file does not say is named", "[cli][train]") {
  prepare();
  std::string silent = config;
  silent.replace(silent.find("\"attn_pdrop\": 0,"), 16, "");
  write("silent.json", silent);
  const auto messages = [](const std::string& options) {
    return run_tessera("train silent.json --batch 2 --steps 1 --threads 1 -q --data text.txt " +
                       options)
        .messages;
  };
  CHECK(messages("") ==
        "tessera: warning: silent.json: does not say attn_pdrop, so nothing is dropped there, "
        "where transformers would drop 0.1: write them into it, or give --dropout 0.1 or "
        "--no-dropout\n");
  CHECK(messages("--no-dropout").empty());
  CHECK(messages("--dropout 0.1").empty());
}

TEST_CASE("data that a step or a validation takes several times are named", "[cli][train]") {
  prepare();
  write("short.txt", std::string(40, 'a'));  // two samples
  CHECK(
      says(trained_on("short.txt", "--accumulation 2"),
           "a step takes 4 samples, but short.txt has 2: a step sees some of them several times"));
  CHECK(trained_on("short.txt").messages.empty());
  CHECK(says(trained_on("text.txt", "--validation short.txt --validation-batches 9"),
             "--validation-batches 9: there is 1, of which each counts once"));
  CHECK(trained_on("text.txt", "--validation short.txt").messages.empty());
}

TEST_CASE("a trace of steps that a run does not have is refused", "[cli][train]") {
  prepare();
  CHECK(says(trained_on("text.txt", "--trace run.tessera --record-steps 6-9"),
             "--record-steps 6-9: the run has only the steps 0 to 5"));
  CHECK(says(trained_on("text.txt", "--trace run.tessera --record-steps 5-9"),
             "--record-steps 5-9: the run has only the steps 0 to 5"));
}

TEST_CASE("checkpoints behind a later one are refused before the first step", "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "later");
  REQUIRE(trained_on("text.txt", "--save later").exit_code == 0);
  const ProgramRun run = trained_on("text.txt", "--save later --save-every 4 --json later.log");
  CHECK(run.exit_code == 2);
  CHECK(says(run,
             "--save later: has a checkpoint of step 6, later than the 4 that is to be saved "
             "first: give another folder, go on from it with --resume later"));
  CHECK_FALSE(std::filesystem::exists(run_folder() + "later.log"));
  CHECK(trained_on("text.txt", "--save later").exit_code == 0);
}

TEST_CASE("tokens that never come, and tokenizers of other models, are named", "[cli][train]") {
  prepare();
  CHECK(says(trained_on("text.txt", "--end-of-text 7"),
             "text.txt: token 7, which would begin documents, is none of its 1320 tokens: "
             "attention looks across all of them"));
  CHECK(trained_on("text.txt", "--end-of-text 46").messages.empty());
  const auto tokenizer = [](const std::string& more) {
    std::string vocabulary = more;
    int id = 0;
    for (const char letter : std::string("abcdefghijklmnopqrstuvwxyz ."))
      vocabulary += std::string(", \"") + letter + "\": " + std::to_string(id++);
    write("letters.json",
          R"({"model": {"type": "BPE", "merges": [], "vocab": {)" + vocabulary + "}}}");
    return trained_on("text.txt", "--tokenizer letters.json");
  };
  CHECK(
      says(tokenizer(R"("A": 400)"),
           "text.txt: the tokenizer has tokens up to 400, the model up to 255: is it of another"));
  CHECK(tokenizer(R"("A": 255)").messages.empty());
  for (const std::string number : {"-3", "1e3", "16777216"}) {
    const ProgramRun run = tokenizer("\"A\": " + number);
    CHECK(run.exit_code == 2);
    CHECK(says(run, "letters.json: token \"A\" has the number "));
    CHECK(says(run, ", choose 0 to 16777215"));
  }
  write("capital.txt", text_of("text.txt") + "A");
  tokenizer(R"("B": 28)");
  CHECK(says(trained_on("capital.txt", "--tokenizer letters.json"),
             "\"A\" has no token, and the tokenizer none for the unknown: take it out"));
}

TEST_CASE("what would come every so many steps of more than a run has is named", "[cli][train]") {
  prepare();
  const std::string behind = ": the run has 6 steps, so it ";
  CHECK(says(trained_on("text.txt", "--log-every 7"),
             "--log-every 7" + behind + "logs after the last alone\n"));
  CHECK(says(trained_on("text.txt", "--validation-fraction 0.2 --validate-every 8"),
             "--validate-every 8" + behind + "validates after the last alone\n"));
  std::filesystem::remove_all(run_folder() + "rarely");
  CHECK(says(trained_on("text.txt", "--save rarely --save-every 1000"),
             "--save-every 1000" + behind + "saves after the last alone\n"));
  CHECK(trained_on("text.txt", "--log-every 6").messages.empty());
}

TEST_CASE("lines without chats beside a chat template are named, of validation, too",
          "[cli][train]") {
  prepare();
  write("web.jsonl", R"({"text": "something that is learned, and no chat at all"})");
  write("chat.jsonl", R"({"prompt": "1 + 1?", "completion": "2"})");
  const std::string sentence =
      "web.jsonl: has no chats, so none of it is written by the chat template\n";
  CHECK(says(trained_on("web.jsonl", "--chat-template plain"), sentence));
  CHECK(says(trained_on("chat.jsonl", "--chat-template plain --validation web.jsonl"), sentence));
  CHECK_FALSE(says(trained_on("chat.jsonl", "--chat-template plain"), "chat template"));
}

TEST_CASE("what a tokenizer's files say and nobody follows is named once", "[cli][train]") {
  prepare();
  std::filesystem::create_directories(run_folder() + "cut");
  write("cut/tokenizer.json",
        R"({"version": "1.0", "truncation": {"max_length": 4}, "padding": {"length": 4},
            "post_processor": {"type": "ByteLevel", "speed": 1}, "model": {"type": "BPE",
            "merges": [], "unk_token": "?", "vocab": {"?": 0, "a": 1, "t": 2, "o": 3, " ": 4,
            "r": 5, "i": 6, "n": 7, "s": 8, "e": 9, "l": 10, "g": 11, ".": 12}}})");
  write("cut/tokenizer_config.json", R"({"add_bos_token": true, "add_eos_token": false})");
  const std::string warnings =
      "tessera: warning: cut/tokenizer.json: truncation and padding are not followed: a text "
      "becomes as many tokens as it has\n"
      "tessera: warning: cut/tokenizer.json: has keys that are not read: post_processor.speed\n"
      "tessera: warning: cut/tokenizer_config.json: add_bos_token is true, but by the "
      "tokenizer.json beside it no token comes before a text, which is what is done: make them "
      "agree\n";
  CHECK(trained_on("text.txt", "--tokenizer cut --export cut.safetensors").messages == warnings);
  CHECK(run_tessera("tokenize cut text.txt -o cut.bin").messages == warnings);
  CHECK(run_tessera("evaluate gpt.json --weights cut.safetensors --tokenizer cut --data "
                    "text.txt,text.txt")
            .messages == warnings);
  CHECK(run_tessera("generate gpt.json --weights cut.safetensors --tokenizer cut --tokens 1 "
                    "--prompt a --temperature 0")
            .messages.starts_with(warnings));
  write("cut/tokenizer_config.json", R"({"add_bos_token": 1})");
  CHECK(says(trained_on("text.txt", "--tokenizer cut"), "add_bos_token must be true or false"));
}

TEST_CASE("a text without a tokenizer for a model of more than bytes is named", "[cli][train]") {
  prepare();
  std::string wide = config;
  wide.replace(wide.find("\"vocab_size\": 256"), 17, "\"vocab_size\": 999");
  write("wide.json", wide);
  const auto messages = [](const std::string& data) {
    return run_tessera("train wide.json --batch 1 --steps 1 --threads 1 -q --data " + data)
        .messages;
  };
  CHECK(messages("text.txt") ==
        "tessera: warning: text.txt: its bytes are its tokens, of which there are 256, but the "
        "model has 999: name its tokenizer with --tokenizer, or say --data-format bytes if they "
        "are meant\n");
  CHECK(messages("text.txt --data-format bytes").empty());
  write("web.jsonl", R"({"text": "something that is learned"})");
  CHECK(messages("web.jsonl").find("web.jsonl: its bytes are its tokens") != std::string::npos);
}

TEST_CASE("options that two places say, and folders that are files, are refused", "[cli][train]") {
  prepare();
  write("half.json", R"({"fp16": {"enabled": true}, "zero_optimization": {"stage": 2},
                         "gradient_clipping": 0})");
  CHECK(says(trained_on("text.txt", "--deepspeed half.json --dtype bf16"),
             "--dtype bf16: by half.json the run trains in float16: leave one out"));
  CHECK(trained_on("text.txt", "--deepspeed half.json --dtype fp16").exit_code == 0);
  REQUIRE(trained_on("text.txt", "--export base.safetensors").exit_code == 0);
  const ProgramRun run = trained_on("text.txt",
                                    "--load base.safetensors --lora rank=2,alpha=1,target=c_attn "
                                    "--export-adapter half.json --json adapter.log");
  CHECK(run.exit_code == 2);
  CHECK(says(run, "--export-adapter half.json: is no folder"));
  CHECK_FALSE(std::filesystem::exists(run_folder() + "adapter.log"));
}

TEST_CASE("lists with an empty part are refused wherever there are lists", "[cli][train]") {
  prepare();
  const std::string why = ": a part of the list is empty: name something there, or leave the comma";
  for (const std::string list : {"text.txt,,text.txt", ",text.txt", "text.txt,"}) {
    const ProgramRun run = trained_on(list, "--export empty.safetensors");
    CHECK(run.exit_code == 2);
    CHECK(says(run, "--data " + list + why));
    CHECK_FALSE(std::filesystem::exists(run_folder() + "empty.safetensors"));
    CHECK(says(run_tessera("evaluate gpt.json --weights w --data=" + list), list + why));
  }
  CHECK(says(trained_on("text.txt", "--betas 0.9,,0.95"), "--betas 0.9,,0.95" + why));
  CHECK(says(run_tessera("generate gpt.json --weights w --prompt-ids 1,,2"), "1,,2" + why));
  write("run.toml", "model = \"gpt.json\"\ndata = [\"text.txt\", \"\"]\n");
  CHECK(says(run_tessera("train run.toml --steps 1"), "--data text.txt," + why));
}

TEST_CASE("checkpoints whose folders were renamed are named or refused", "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "moved");
  REQUIRE(trained_on("text.txt", "--save moved").exit_code == 0);
  const auto rename = [](const std::string& from, const std::string& to) {
    std::filesystem::rename(run_folder() + "moved/" + from, run_folder() + "moved/" + to);
  };
  rename("step-000006", "best");
  const std::string sentence =
      "moved: a checkpoint is under another name and not looked at, as only folders step-... are: "
      "moved/best; name the one that is meant";
  const ProgramRun first = trained_on("text.txt", "--save moved --resume auto");
  CHECK(first.exit_code == 0);
  CHECK(says(first, sentence));
  CHECK(says(run_tessera("checkpoint info moved"), sentence));
  std::filesystem::create_directories(run_folder() + "moved/step-000003");  // saving was stopped
  std::filesystem::create_directories(run_folder() + "moved/step-000008");
  CHECK(says(trained_on("text.txt", "--resume moved -q"),
             "moved: a later step has no manifest, as saving did not end: moved/step-000008; "
             "passed by"));
  std::filesystem::remove_all(run_folder() + "moved/step-000008");
  CHECK(trained_on("text.txt", "--resume moved/best").exit_code == 0);
  std::filesystem::remove_all(run_folder() + "moved/step-000006");
  CHECK(says(trained_on("text.txt", "--resume moved"), "; moved/best is one under another name"));
  rename("best", "step-000009");
  for (const std::string use : {"--resume moved", "--resume moved/step-000009/", "--save moved"}) {
    const ProgramRun run = trained_on("text.txt", use);
    CHECK(run.exit_code == 2);
    CHECK(says(run, "step-000009"));
    CHECK(says(run,
               ": is a checkpoint of step 6 in the folder of another step: call it step-000006 "
               "again"));
  }
}

TEST_CASE("a schedule that never falls, and adapters wider than their matrices, are named",
          "[cli][train]") {
  prepare();
  const std::string never = "--schedule wsd: without --decay the learning rate never falls";
  CHECK(says(trained_on("text.txt", "--schedule wsd"), never));
  CHECK(trained_on("text.txt", "--schedule wsd --decay 2").messages.empty());
  REQUIRE(trained_on("text.txt", "--export base.safetensors").exit_code == 0);
  const auto adapted = [](const std::string& lora) {
    return trained_on("text.txt", "--load base.safetensors --lora " + lora);
  };
  CHECK(adapted("rank=16,target=c_attn").messages.empty());
  CHECK(says(adapted("rank=17,target=c_attn"),
             "lora: rank 17 is above the 16 inputs of h.0.attn.c_attn: a lower rank can say the "
             "same with fewer elements"));
  CHECK(says(adapted("rank=17"), " of h.0.attn.c_attn and of 3 more matrices: a lower"));
}

TEST_CASE("chats out of turn, and keys of texts that no line has, are named", "[cli][train]") {
  prepare();
  const auto chat = [](const std::string& roles) {
    std::string messages;
    for (const char role : roles) {
      const std::string name = role == 's' ? "system" : role == 'u' ? "user" : "assistant";
      messages += (messages.empty() ? R"({"role": ")" : R"(, {"role": ")") + name +
                  R"(", "content": "hm"})";
    }
    write("turns.jsonl", R"({"messages": [)" + messages + "]}\n");
    return says(trained_on("turns.jsonl", "--chat-template plain"),
                "turns.jsonl: chats in which user and assistant do not take turns, behind a system "
                "message if any: 1; they are written as they are");
  };
  for (const std::string fine : {"ua", "sua", "uau", "suaua"}) CHECK_FALSE(chat(fine));
  for (const std::string odd : {"a", "au", "uua", "uaa", "uas", "ssua"}) CHECK(chat(odd));
  CHECK(says(trained_on("turns.jsonl", "--chat-template plain --text-key body"),
             "turns.jsonl: no line is a text with the key body"));
}

}  // namespace tessera::test
