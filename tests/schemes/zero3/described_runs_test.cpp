// SPDX-License-Identifier: Apache-2.0
// Runs of DeepSpeed 0.9.0 that are described by their numbers, without a recorded file.
#include "tessera/grad_scaler.h"
#include "tests/schemes/zero3/scene.h"

namespace tessera::test {
namespace {

Model net3_with(const std::string& name, std::vector<std::int32_t> forward) {
  Model model = net3();
  Graph graph{name, {}};
  for (std::int32_t m : forward) graph.forward.push_back(ModuleId{m});
  model.graphs.push_back(std::move(graph));
  return model;
}

Lines resets(const Scene& scene) {
  Lines out;
  for (const std::string& line : Scene::only(scene.lines(), {"RESET_STEP"})) {
    out.push_back(line.substr(11, line.find(" modules") - 11));
  }
  return out;
}

TEST_CASE("a graph that skips b is noticed at step 2 and costs two slow passes", "[zero3]") {
  Scene scene(net3_with("short", {1, 3}));
  scene.run("train,step,train:short,step,train:short,step,train:short,step");
  CHECK(Scene::only(scene.lines(), {"INVALIDATE"}) == Lines{"INVALIDATE step=2 mod=c"});
  CHECK(resets(scene) ==
        Lines{"RECORD->COMPLETE", "INVALID->RECORD", "RECORD->COMPLETE", "COMPLETE->COMPLETE"});
}

TEST_CASE("with prefetch such a graph ends in an error that names what still flies", "[zero3]") {
  Zero3Options options = recorded_options();
  options.prefetch_bucket = Numel{30};
  Scene scene(net3_with("short", {1, 3}), options);
  const Status status = scene.run("train,step").try_to("train:short");
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("still have inflight params, b.w and 0 more") == 0);
}

TEST_CASE("an extra forward pass is taken for backward until step 5", "[zero3]") {
  Scene scene(net3());
  scene.run("train,step,forward,train,step");
  CHECK(Scene::only(scene.lines(), {"INVALIDATE"}) == Lines{"INVALIDATE step=5 mod=a"});
  CHECK(resets(scene) == Lines{"RECORD->COMPLETE", "INVALID->RECORD"});
}

TEST_CASE("evaluation has four modules and a record of its own", "[zero3]") {
  Scene scene(net3());
  scene.run("train,step,eval,eval");
  const Lines all = Scene::only(scene.lines(), {"RESET_STEP"});
  REQUIRE(all.size() == 3);
  CHECK(all[1] ==
        "RESET_STEP RECORD->COMPLETE modules=['root', 'a', 'b', 'c'] "
        "params=[('a.w', 1), ('b.w', 2), ('c.w', 3)]");
  CHECK(all[2].find("RESET_STEP COMPLETE->COMPLETE") == 0);
}

TEST_CASE("without a step what the first pass left is not gathered in the next", "[zero3]") {
  Scene scene(net3());
  scene.run("train,train,step");
  const Lines second = Scene::only(scene.iteration(2), {"FETCH F", "ALLGATHER"});
  CHECK(second == Lines{"FETCH F step=0 mod=root trace=COMPLETE",
                        "FETCH F step=1 mod=a trace=COMPLETE",
                        "FETCH F step=2 mod=b trace=COMPLETE", "ALLGATHER ['b.w'] numel=30",
                        "FETCH F step=3 mod=c trace=COMPLETE", "ALLGATHER ['c.w'] numel=15",
                        "ALLGATHER ['c.w'] numel=15", "ALLGATHER ['b.w'] numel=30",
                        "ALLGATHER ['a.w'] numel=24"});
}

TEST_CASE("a limit of 40 live elements lets one prefetch make 69 live", "[zero3]") {
  Zero3Options options = recorded_options();
  options.prefetch_bucket = Numel{1000};
  options.max_live_parameters = Numel{40};
  Scene scene(net3(), options);
  scene.run("train,step,train,step");
  // The step freed a (24) after the count was reset, so 64 seem to be left.
  CHECK(Scene::only(scene.iteration(2), {"PREFETCH"})[0] ==
        "PREFETCH ['a.w', 'b.w', 'c.w'] numel=69");
}

TEST_CASE("a prefetch bucket larger than the model keeps all of it although nothing may be reused",
          "[zero3]") {
  Zero3Options options = recorded_options();
  options.prefetch_bucket = Numel{1000};
  Scene scene(net3(), options);
  scene.run("train,step,train,step");
  const Lines second = Scene::only(scene.iteration(2), {"PREFETCH", "PARTITION", "--- BACK"});
  CHECK(second == Lines{"PREFETCH ['a.w', 'b.w', 'c.w'] numel=69", "--- BACKWARD", "PARTITION c.w",
                        "PARTITION b.w", "PARTITION a.w"});
}

TEST_CASE("a reuse distance larger than the model keeps all of it", "[zero3]") {
  Zero3Options options = recorded_options();
  options.max_reuse_distance = Numel{1000};
  Scene scene(net3(), options);
  scene.run("train,step,train,step");
  const Lines second = Scene::only(scene.iteration(2), {"ALLGATHER", "PARTITION", "--- BACK"});
  CHECK(second == Lines{"ALLGATHER ['a.w'] numel=24", "ALLGATHER ['b.w'] numel=30",
                        "ALLGATHER ['c.w'] numel=15", "--- BACKWARD", "PARTITION c.w",
                        "PARTITION b.w", "PARTITION a.w"});
}

TEST_CASE("old decisions to free outlive the record that they were made from (DeepSpeed Z4)",
          "[zero3]") {
  // In the first order b's next use is far from step 3, in the second it is next.
  Model model = net3_with("loop", {1, 2, 2, 3});
  Zero3Options options = recorded_options();
  options.max_reuse_distance = Numel{20};
  Scene stale(model, options);
  stale.run("train,step,train,step,train:loop,step,train:loop,step,train:loop,step");
  Scene fresh(model, options);
  fresh.run("train:loop,step,train:loop,step");
  const Lines words = {"FETCH F step=3", "RELEASE F step=3", "PARTITION", "ALLGATHER", "--- BACK"};
  const auto forward = [&](const Lines& lines) {
    const Lines some = Scene::only(lines, words);
    return Lines(some.begin(), std::find(some.begin(), some.end(), "--- BACKWARD"));
  };
  CHECK(forward(fresh.iteration(2)) == Lines{"ALLGATHER ['a.w'] numel=24", "PARTITION a.w",
                                             "ALLGATHER ['b.w'] numel=30", "RELEASE F step=3 mod=b",
                                             "FETCH F step=3 mod=b trace=COMPLETE", "PARTITION b.w",
                                             "ALLGATHER ['c.w'] numel=15"});
  CHECK(forward(stale.iteration(5)) ==
        Lines{"ALLGATHER ['a.w'] numel=24", "PARTITION a.w", "ALLGATHER ['b.w'] numel=30",
              "RELEASE F step=3 mod=b", "PARTITION b.w", "FETCH F step=3 mod=b trace=COMPLETE",
              "ALLGATHER ['b.w'] numel=30", "PARTITION b.w", "ALLGATHER ['c.w'] numel=15"});
}

TEST_CASE("sub-groups of 12 elements hold one parameter each", "[zero3]") {
  Zero3Options options = recorded_options();
  options.sub_group_size = Numel{12};
  Scene scene(net3(), options);
  CHECK(scene.lines()[0].ends_with("subgroups [['a.w'], ['b.w'], ['c.w']]"));
  scene.run("train,step");
  CHECK(Scene::only(scene.lines(), {"OPT _prep", "OPT _rel"}) ==
        Lines{"OPT _prepare_sub_group 0", "OPT _release_sub_group 0", "OPT _prepare_sub_group 1",
              "OPT _release_sub_group 1", "OPT _prepare_sub_group 2", "OPT _release_sub_group 2"});
}

TEST_CASE("tied weights are one parameter of two modules, freed and gathered at once", "[zero3]") {
  Scene scene(parsed(R"({"tessera_model": 1, "name": "tied", "root": {"class": "Net", "modules": [
    {"name": "a", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]}]},
    {"name": "b", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]}]},
    {"name": "c", "class": "Linear", "parameters": [{"name": "w", "shape": [3, 4]}]}]},
    "ties": [["a.w", "b.w"]]})"));
  CHECK(scene.lines()[0] ==
        "PARAMS [('a.w', 16, 8, ''), ('c.w', 12, 6, '')] subgroups [['a.w', 'c.w']]");
  scene.run("train,step,train,step");
  CHECK(Scene::only(scene.lines(), {"RESET_STEP"})[0].ends_with(
      "params=[('a.w', 1), ('a.w', 2), ('c.w', 3), ('c.w', 5), ('a.w', 6), ('a.w', 7)]"));
  const Lines second =
      Scene::only(scene.iteration(2), {"ALLGATHER", "PARTITION", "GRAD", "REDUCE"});
  CHECK(second == Lines{"ALLGATHER ['a.w'] numel=16", "PARTITION a.w", "ALLGATHER ['a.w'] numel=16",
                        "PARTITION a.w", "ALLGATHER ['c.w'] numel=12", "PARTITION c.w",
                        "ALLGATHER ['c.w'] numel=12", "GRAD_READY c.w", "PARTITION c.w",
                        "ALLGATHER ['a.w'] numel=16", "PARTITION a.w", "ALLGATHER ['a.w'] numel=16",
                        "GRAD_READY a.w", "REDUCE_SCATTER numel 28", "PARTITION a.w"});
}

TEST_CASE("three forward passes of one layer are three fetches and one release in backward",
          "[zero3]") {
  Model model = net3({.widths = {4, 4, 4, 4}});
  model.forward = {ModuleId{1}, ModuleId{2}, ModuleId{2}, ModuleId{2}, ModuleId{3}};
  Scene scene(model);
  scene.run("train,step");
  const Lines all = Scene::only(scene.lines(), {"FETCH B", "RELEASE B", "GRAD", "PARTITION b"});
  CHECK(all == Lines{"PARTITION b.w", "PARTITION b.w", "PARTITION b.w",
                     "FETCH B step=6 mod=root trace=RECORD", "FETCH B step=7 mod=c trace=RECORD",
                     "GRAD_READY c.w", "RELEASE B step=8 mod=c",
                     "FETCH B step=8 mod=b trace=RECORD", "RELEASE B step=9 mod=b", "PARTITION b.w",
                     "FETCH B step=9 mod=b trace=RECORD", "FETCH B step=10 mod=b trace=RECORD",
                     "GRAD_READY b.w", "FETCH B step=11 mod=a trace=RECORD", "GRAD_READY a.w",
                     "PARTITION b.w"});
}

// a returns its bias beside its output; the root answers for it from then on.
constexpr const char* dangling = R"({"tessera_model": 1, "name": "dangling", "root": {
  "class": "Net", "modules": [
    {"name": "a", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]},
                                                    {"name": "b", "shape": [4]}]},
    {"name": "c", "class": "Linear", "parameters": [{"name": "w", "shape": [3, 4]}]}]},
  "returns": [["a", "a.b"]]})";

TEST_CASE("a parameter that a module returns belongs to the module around it and stays",
          "[zero3]") {
  Scene scene(parsed(dangling));
  scene.run("train,step,train,step");
  const Lines words = {"FETCH", "ALLGATHER", "PARTITION", "--- "};
  CHECK(Scene::only(scene.iteration(1), words) ==
        Lines{"FETCH F step=0 mod=root trace=RECORD", "FETCH F step=1 mod=a trace=RECORD",
              "ALLGATHER ['a.w', 'a.b'] numel=20", "PARTITION a.w",  // a.b stays
              "FETCH F step=2 mod=c trace=RECORD", "ALLGATHER ['c.w'] numel=12", "PARTITION c.w",
              "--- BACKWARD", "FETCH B step=3 mod=root trace=RECORD",
              "FETCH B step=4 mod=c trace=RECORD", "ALLGATHER ['c.w'] numel=12", "PARTITION c.w",
              "FETCH B step=5 mod=a trace=RECORD", "ALLGATHER ['a.w'] numel=16",
              "FETCH B step=6 mod=a trace=RECORD", "--- EPILOGUE", "--- STEP", "PARTITION a.w",
              "PARTITION a.b"});
  // Registered at step 2, it is recorded for the root's visits at 0 and 3 nevertheless; a, which
  // returns two tensors, is there twice.
  CHECK(Scene::only(scene.lines(), {"RESET_STEP"})[0] ==
        "RESET_STEP RECORD->COMPLETE modules=['root', 'a', 'c', 'root', 'c', 'a', 'a'] "
        "params=[('a.b', 0), ('a.w', 1), ('a.b', 1), ('c.w', 2), ('a.b', 3), ('c.w', 4), "
        "('a.w', 5), ('a.b', 5), ('a.w', 6), ('a.b', 6)]");
  CHECK(Scene::only(scene.iteration(2), {"FETCH F step=0", "ALLGATHER"})[1] ==
        "ALLGATHER ['a.b'] numel=4");
}

TEST_CASE("a module with k outputs is fetched k times in backward and released once", "[zero3]") {
  Model model = net3({.input_requires_grad = true});
  model.modules[2].outputs = 3;
  Scene scene(model);
  scene.run("train,step,train,step");
  for (int iteration : {1, 2}) {
    const Lines all = scene.iteration(iteration);
    CHECK(Scene::only(all, {"FETCH B step=6 mod=b", "FETCH B step=7 mod=b", "FETCH B step=8 mod=b"})
              .size() == 3);
    CHECK(Scene::only(all, {"RELEASE B"}) ==
          Lines{"RELEASE B step=6 mod=c", "RELEASE B step=9 mod=b", "RELEASE B step=10 mod=a",
                "RELEASE B step=10 mod=root"});
  }
}

TEST_CASE("trained parameters that are not used never enter the bucket", "[zero3]") {
  Scene scene(net3_with("short", {1, 3}));
  scene.run("train:short,step");
  CHECK(Scene::only(scene.lines(), {"GRAD", "REDUCE"}) ==
        Lines{"GRAD_READY c.w", "GRAD_READY a.w", "REDUCE_SCATTER numel 40"});
}

TEST_CASE("persistent parameters are gathered ahead of nothing and stay through every pass",
          "[zero3]") {
  Zero3Options options = recorded_options();
  options.persistence_threshold = Numel{6};
  options.prefetch_bucket = Numel{10};
  Scene scene(net3({.biases = true}), options);
  scene.run("train,step,train,step,train,step");
  for (int iteration : {2, 3}) {
    for (const std::string& line :
         Scene::only(scene.iteration(iteration), {"PREFETCH", "ALLGATHER"})) {
      CHECK(line.find(".b") == std::string::npos);
    }
  }
  const Lines third = scene.iteration(3);
  const Lines before(third.begin(), std::find(third.begin(), third.end(), "--- STEP"));
  const Lines freed = Scene::only(before, {"PARTITION"});
  CHECK(std::none_of(freed.begin(), freed.end(),
                     [](const std::string& line) { return line.ends_with(".b"); }));
}

TEST_CASE("a gradient larger than the bucket goes alone, and buckets are sorted", "[zero3]") {
  Zero3Options options = recorded_options();
  options.reduce_bucket = Numel{20};  // c has 15 elements, b 30, a 24
  Scene scene(net3(), options);
  scene.run("train,step");
  CHECK(Scene::only(scene.lines(), {"GRAD", "REDUCE", "--- EPI"}) ==
        Lines{"GRAD_READY c.w", "GRAD_READY b.w", "REDUCE_SCATTER numel 16", "GRAD_READY a.w",
              "REDUCE_SCATTER numel 30", "--- EPILOGUE", "REDUCE_SCATTER numel 24"});
  // Biases become ready before weights and lie behind them.
  Scene sorted(net3({.biases = true}));
  sorted.run("train,step");
  int buckets = 0;
  for (const Record& record : sorted.recording.records) {
    if (record.kind != Record::Kind::op || record.cause.reason != Reason::copy_in) continue;
    const auto* copy = std::get_if<Copy>(&record.op.what);
    if (copy == nullptr || copy->pieces.size() < 6) continue;
    Lines numels;
    for (const CopyBlocks& piece : copy->pieces) {
      numels.push_back(std::to_string(piece.from.numel.value));
    }
    ++buckets;
    CHECK(numels == Lines{"12", "3", "15", "3", "8", "2"});  // a.w, a.b, b.w, ...
  }
  CHECK(buckets == 1);
}

TEST_CASE("after a skipped step persistent parameters wait for the next fetch", "[zero3]") {
  Zero3Options options = recorded_options();
  options.persistence_threshold = Numel{6};
  Scene scene(net3({.biases = true}), options);
  GradScalerOptions scaling;
  scaling.overflows_without_numbers = [](std::int64_t step) { return step == 2; };
  auto scaler = grad_scaler(*scene.engine, scaling);
  REQUIRE(scaler.ok());
  const auto step = [&] {
    const Status ran = run_training_step(*scene.engine, scene.model, {.scaler = scaler->get()});
    INFO(ran.message());
    REQUIRE(ran.ok());
  };
  for (int k = 0; k < 2; ++k) step();
  CHECK(scene.engine->live().size() == 3);  // the biases
  step();
  CHECK(scene.engine->live().empty());
  step();
  CHECK(Scene::only(scene.iteration(4), {"ALLGATHER"})[0] == "ALLGATHER ['a.w', 'a.b'] numel=30");
}

TEST_CASE("steps that keep what follows from the model are the steps that begin anew", "[zero3]") {
  Scene kept(net3_with("short", {1, 3}), {.policy = Zero3Policy::compatible});
  Scene anew(kept.model, {.policy = Zero3Policy::compatible});
  TrainingSteps steps(*kept.engine, kept.model);
  // Options change, and graphs; one is unknown.
  for (const char* const what : {"train,step", "train:short,step", "train:long", "eval,forward",
                                 "train,train:short,step", "train,step"}) {
    for (const auto checkpointing :
         {ActivationCheckpointing::none, ActivationCheckpointing::full}) {
      INFO(what);
      const TrainingOptions options{.batch = kept.recording.records.size() % 2 == 0 ? 1 : 2,
                                    .passes = test::passes(what),
                                    .checkpointing = checkpointing};
      const Status one = steps.run(options);
      const Status other = run_training_step(*anew.engine, anew.model, options);
      CHECK(one.message() == other.message());
    }
  }
  CHECK(kept.recording.records.size() > 200);
  REQUIRE(kept.recording.records.size() == anew.recording.records.size());
  for (std::size_t k = 0; k < kept.recording.records.size(); ++k) {
    REQUIRE(to_line(kept.recording, kept.recording.records[k]) ==
            to_line(anew.recording, anew.recording.records[k]));
  }
}

}  // namespace
}  // namespace tessera::test
