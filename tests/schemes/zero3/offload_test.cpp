// SPDX-License-Identifier: Apache-2.0
// Where partitions live, what moves when, and what of that the host waits for.
#include <catch2/catch.hpp>
#include <map>

#include "engine/schemes/zero3/offload/partition_home.h"
#include "tests/schemes/zero3/policy_run.h"
#include "tests/schemes/zero3/scene.h"

namespace tessera {
namespace {

using Device = Offload::Device;

constexpr std::int64_t layers = 8;

// Layers of a million parameters each.
Model chain() {
  std::string modules;
  for (std::int64_t k = 0; k < layers; ++k) {
    modules += (k == 0 ? "" : ", ") + (R"({"name": "l)" + std::to_string(k)) +
               R"(", "class": "Linear", "parameters": [{"name": "w", "shape": [1000, 1000]}]})";
  }
  return test::parsed(R"({"tessera_model": 1, "name": "chain", "dtype": "bfloat16", "root":
      {"class": "Net", "modules": [)" +
                      modules + "]}}");
}

Zero3Options offloaded(Device param, Device optimizer, Zero3Policy policy = Zero3Policy::strict) {
  Zero3Options o{.policy = policy};
  o.param_dtype = DType::bfloat16;
  o.offload_param.device = param;
  o.offload_optimizer.device = optimizer;
  o.aio.smallest = Bytes{1 << 16};
  return o;
}

// The records of one step, after one that makes what only the first makes.
std::vector<Record> second_step(const Zero3Options& options, Rank ranks = 2) {
  const Model model = chain();
  Recording recording;
  const auto runtime = make_recording_runtime(ranks, recording);
  auto engine = zero3(*runtime, model, options);
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  REQUIRE(run_training_step(**engine, model, {}).ok());
  recording.records.clear();
  const Status status = run_training_step(**engine, model, {});
  INFO(status.message());
  REQUIRE(status.ok());
  return recording.records;
}

std::map<CopyRoute, std::int64_t> bytes_by_route(const std::vector<Record>& records) {
  std::map<CopyRoute, std::int64_t> bytes;
  for (const Record& r : records) {
    if (r.kind != Record::Kind::op) continue;
    if (const auto* copy = std::get_if<Copy>(&r.op.what))
      bytes[copy->route] += bytes_of(r.op).value;
  }
  return bytes;
}

TEST_CASE("a partition lives where DeepSpeed's rules say", "[zero3][offload]") {
  Zero3Options o;
  const PartitionHome home(o);
  const Bytes small{(1 << 20) - 1};
  const Bytes large{1 << 20};
  CHECK(home.of_parameter(large, false) == Memory::device);
  o.offload_param.device = Device::cpu;
  CHECK(home.of_parameter(small, false) == Memory::pinned_host);
  CHECK(home.of_parameter(small, true) == Memory::device);
  o.offload_param.device = Device::nvme;
  CHECK(home.of_parameter(large, false) == Memory::nvme);
  CHECK(home.of_parameter(large, true) == Memory::nvme);
  CHECK(home.of_parameter(small, false) == Memory::pinned_host);
  CHECK(home.of_parameter(small, true) == Memory::device);
  // Twin flow: the first groups stay, floor((1 - ratio) * groups) of them.
  o.offload_optimizer.device = Device::cpu;
  o.offload_optimizer.ratio = 0.3;
  std::string homes;
  for (std::size_t g = 0; g < 4; ++g) {
    homes += home.of_group(g, 4) == Memory::device ? "d" : "h";
  }
  CHECK(homes == "ddhh");
}

// ZeRO-Offload (arXiv 2101.06840), section 4: per step 2M bytes of fp16 gradients to the CPU and 2M
// of fp16 parameters back, for M parameters; here each rank moves its share.
TEST_CASE("an offloaded optimizer moves 4 bytes per parameter and step between GPU and CPU",
          "[zero3][offload]") {
  const Rank ranks = GENERATE(1, 2, 4);
  auto bytes = bytes_by_route(second_step(offloaded(Device::none, Device::cpu), ranks));
  const std::int64_t share = layers * 1'000'000 / ranks;
  CHECK(bytes[CopyRoute::to_host] == 2 * share);
  CHECK(bytes[CopyRoute::to_device] == 2 * share);
}

TEST_CASE("offloaded parameters come to the device once for each gather, and never back",
          "[zero3][offload]") {
  Zero3Options o = offloaded(Device::cpu, Device::cpu);
  o.live_budget = Bytes{6'000'000};  // three layers: most are gathered for each pass
  std::int64_t gathered = 0;
  const std::vector<Record> records = second_step(o);
  for (const Record& r : records) {
    if (r.kind != Record::Kind::op) continue;
    if (const auto* gather = std::get_if<AllGather>(&r.op.what))
      gathered += gather->input.numel.value;
  }
  auto bytes = bytes_by_route(records);
  CHECK(gathered > layers * 1'000'000 / 2);
  CHECK(bytes[CopyRoute::to_device] == 2 * gathered);
  CHECK(bytes[CopyRoute::to_host] == layers * 1'000'000);  // gradients alone
}

TEST_CASE("with use_gds what is read from files never crosses the host", "[zero3][offload]") {
  Zero3Options o = offloaded(Device::nvme, Device::none);
  auto through = bytes_by_route(second_step(o));
  o.aio.use_gds = true;
  auto past = bytes_by_route(second_step(o));
  const std::int64_t read = through[CopyRoute::from_nvme];
  CHECK(read > 0);
  CHECK(through[CopyRoute::to_device] == read);
  CHECK(past[CopyRoute::nvme_to_device] == read);
  CHECK(past[CopyRoute::device_to_nvme] == through[CopyRoute::to_nvme]);
  for (const CopyRoute route :
       {CopyRoute::from_nvme, CopyRoute::to_nvme, CopyRoute::to_device, CopyRoute::to_host}) {
    CHECK(past[route] == 0);
  }
}

TEST_CASE("an offloaded step keeps no states on the device", "[zero3][offload]") {
  const Model model = chain();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const Device device = GENERATE(Device::cpu, Device::nvme);
  auto engine = zero3(*runtime, model, offloaded(device, device));
  REQUIRE(engine.ok());
  REQUIRE(run_training_step(**engine, model, {}).ok());
  for (const Recording::Buffer& buffer : recording.buffers) {
    INFO(buffer.name);
    CHECK(buffer.memory_class != MemoryClass::optimizer_state);
    CHECK(buffer.memory_class != MemoryClass::sharded_parameters);
    CHECK(buffer.memory_class != MemoryClass::sharded_gradients);
  }
}

struct Drive {
  int reads_ahead = 0;      // most reads submitted before a module that did not run yet
  int least_ahead = 1'000;  // in the first half of the pass
  int host_waits = 0;       // for reads
};

// What a forward pass does with the drive: how far reads are ahead of the modules that need them.
Drive drive_of(const Zero3Options& options) {
  const std::vector<Record> records = second_step(options);
  std::map<EventId, bool> reads;
  Drive drive;
  int read = 0;
  int ran = 0;
  for (const Record& r : records) {
    if (r.kind == Record::Kind::host_wait) drive.host_waits += reads.contains(r.event) ? 1 : 0;
    if (r.kind != Record::Kind::op || r.cause.phase != Phase::forward) continue;
    const auto* copy = std::get_if<Copy>(&r.op.what);
    if (copy != nullptr && copy->route == CopyRoute::from_nvme) {
      reads[r.event] = true;
      ++read;
    }
    const bool runs = std::holds_alternative<Compute>(r.op.what) && !r.cause.module.empty();
    if (runs && ran < layers / 2) drive.least_ahead = std::min(drive.least_ahead, read - ran);
    ran += runs ? 1 : 0;
    drive.reads_ahead = std::max(drive.reads_ahead, read - ran);
  }
  return drive;
}

TEST_CASE(
    "reads are ahead as far as budget and buffers reach, and nobody waits for all of them "
    "(DeepSpeed Z7)",
    "[zero3][offload]") {
  Zero3Options strict = offloaded(Device::nvme, Device::none);
  strict.live_budget = Bytes{4'000'000};  // two layers
  const Drive mine = drive_of(strict);
  CHECK(mine.reads_ahead >= 2 + 4);  // gathered, or in all buffers but one
  CHECK(mine.host_waits == 0);
  strict.offload_param.buffer_count = 2;
  CHECK(drive_of(strict).reads_ahead < mine.reads_ahead);

  Zero3Options compatible = offloaded(Device::nvme, Device::nvme, Zero3Policy::compatible);
  compatible.offload_optimizer.buffer_count = 4;
  compatible.max_reuse_distance = Numel{0};
  compatible.prefetch_bucket = Numel{10};
  const Drive theirs = drive_of(compatible);
  CHECK(theirs.reads_ahead <= 2);  // the one that runs next, and one
  CHECK(theirs.host_waits >= layers);
}

TEST_CASE("a buffer is given back once its partition is on the device (DeepSpeed Z8)",
          "[zero3][offload]") {
  const Model model = chain();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const auto policy = GENERATE(Zero3Policy::strict, Zero3Policy::compatible);
  Zero3Options o = offloaded(Device::nvme, Device::none, policy);
  o.offload_param.buffer_count = 3;  // and eight layers are gathered at the end of forward
  auto engine = zero3(*runtime, model, o);
  REQUIRE(engine.ok());
  Status status;
  for (int step = 0; step < 2 && status.ok(); ++step) {
    status = run_training_step(**engine, model, {});
  }
  if (policy == Zero3Policy::strict) {
    INFO(status.message());
    CHECK(status.ok());
    // Two layers are gathered at a time, and there are always buffers for one more.
    o.live_budget = Bytes{4'000'000};
    CHECK(drive_of(o).least_ahead >= 3);
  } else {
    CHECK(status.message().find("Not enough buffers 0 for swapping 1") != std::string::npos);
  }
}

TEST_CASE("reading parameters ahead depends on where parameters live (DeepSpeed Z9)",
          "[zero3][offload]") {
  const Device optimizer = GENERATE(Device::none, Device::cpu, Device::nvme);
  Zero3Options strict = offloaded(Device::nvme, optimizer);
  strict.live_budget = Bytes{4'000'000};
  CHECK(drive_of(strict).reads_ahead >= 6);
  Zero3Options compatible = offloaded(Device::nvme, optimizer, Zero3Policy::compatible);
  compatible.max_reuse_distance = Numel{0};
  compatible.prefetch_bucket = Numel{10};
  CHECK(drive_of(compatible).reads_ahead == (optimizer == Device::nvme ? 2 : 1));
}

// Reads and writes of a trace, by the lane that they are on.
class DriveSink final : public TraceSink {
 public:
  struct Row {
    std::string lane, label;
    Bytes bytes{};
    Time time = 0;
  };
  std::vector<Row> rows;

  void begin(const TraceRun&) override {}
  void stream(const TraceStream& s) override { lanes_[s.id] = std::string(s.name); }
  void communicator(const TraceCommunicator&) override {}
  void unit(const TraceUnit&) override {}
  void op(const TraceOp& o) override {
    if (o.kind != OpKind::copy || lanes_.at(o.stream).rfind("nvme", 0) != 0) return;
    of_op_[o.id] = rows.size();
    rows.push_back({lanes_.at(o.stream), std::string(o.label), o.bytes});
  }
  void spans(const SpanBatch& s) override {
    const auto found = of_op_.find(s.op);
    if (found != of_op_.end()) rows[found->second].time = s.end[0] - s.begin[0];
  }
  void buffer(const TraceBuffer&) override {}
  void memory(std::span<const MemorySample> samples) override {
    for (const MemorySample& sample : samples) {
      Bytes& held = held_[sample.memory_class];
      held += sample.delta;
      fewest = std::min(fewest, held);
      Bytes& highest = most[sample.memory_class];
      highest = std::max(highest, held);
      if (is_on_device(sample.memory_class)) on_device_ += sample.delta;
      counts &= sample.allocated == on_device_ && sample.reserved >= on_device_;
    }
  }
  void peak_memory(const PeakMemory&) override {}
  void rank_steps(const RankStepBatch&) override {}
  void diagnostic(const TraceDiagnostic&) override {}
  Status finish() override { return {}; }

  std::map<MemoryClass, Bytes> most;  // that a class held
  Bytes fewest{};
  bool counts = true;  // the counter is the device's

 private:
  std::map<MemoryClass, Bytes> held_;
  Bytes on_device_{};
  std::map<std::int32_t, std::string> lanes_;
  std::map<std::int32_t, std::size_t> of_op_;
};

TEST_CASE("a trace shows each read and write on a lane of its own, with its time",
          "[zero3][offload]") {
  const auto cluster = sim::load_cluster("dgx-h100", 1);
  REQUIRE(cluster.ok());
  const auto costs = sim::make_cost_model(*cluster);
  DriveSink sink;
  auto runtime = sim::LockstepRuntime::create(
      {.world_size = 8, .cost = &*costs, .sink = &sink, .recorded_ranks = {0}});
  REQUIRE(runtime.ok());
  const Model model = chain();
  Zero3Options o = offloaded(Device::nvme, Device::nvme);
  o.sub_group_size = Numel{100'000};  // a group a layer
  auto engine = zero3(**runtime, model, o);
  REQUIRE(engine.ok());
  for (int step = 0; step < 2; ++step) REQUIRE(run_training_step(**engine, model, {}).ok());
  REQUIRE((*runtime)->finish().ok());
  std::map<std::string, int> moves;
  for (const auto& row : sink.rows) {
    INFO(row.lane << ": " << row.label << ", " << row.bytes.value << " bytes");
    const std::string verb = row.label.substr(0, row.label.find(' '));
    ++moves[row.lane + " " + verb];
    CHECK(row.bytes > Bytes{0});
    const double share =
        (verb == "read" ? cluster->nvme.read_bytes_per_s : cluster->nvme.write_bytes_per_s) / 8;
    const double seconds = static_cast<double>(row.bytes.value) / share;
    CHECK(static_cast<double>(row.time - cluster->nvme.latency_ns) ==
          Approx(seconds * 1e9).epsilon(1e-3));
  }
  // Once a step at least: parameters, written when they were stepped, and every group's states.
  for (const char* kind : {"nvme read", "nvme write", "nvme_read read", "nvme_write write"}) {
    INFO(kind);
    CHECK(moves[kind] >= 2 * layers);
  }
  CHECK(moves.size() == 4);
  // Parameters in bfloat16 with three states in float32 on drives, what is moved in pinned memory.
  const std::int64_t parameters = layers * 1'000'000 / 8;
  CHECK(sink.most[MemoryClass::nvme_staging].value >= parameters * (2 + 12));
  CHECK(sink.most[MemoryClass::pinned_host] > Bytes{0});
  CHECK(sink.most[MemoryClass::pinned_host] < sink.most[MemoryClass::nvme_staging]);
  CHECK(sink.fewest == Bytes{0});
  CHECK(sink.counts);
}

TEST_CASE("a partition that no swap buffer can hold is refused", "[zero3][offload]") {
  const Model model = chain();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  Zero3Options o = offloaded(Device::nvme, Device::none);
  o.offload_param.buffer_size = Numel{400'000};
  CHECK(zero3(*runtime, model, o).status().message() ==
        "l0.w: its partition has 500000 elements, more than a swap buffer of 400000: set "
        "buffer_size to as many at least");
}

TEST_CASE("too few buffers for a pipeline are an error or, strictly, less pipelining",
          "[zero3][offload]") {
  const Model model = chain();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  Zero3Options o = offloaded(Device::none, Device::nvme, Zero3Policy::compatible);
  o.offload_optimizer.pipeline_read = true;
  CHECK(zero3(*runtime, model, o).status().message() ==
        "ran out of swap buffers, try increasing 'buffer_count': 2 groups at a time need 8, found "
        "4");
  o.policy = Zero3Policy::strict;
  auto engine = zero3(*runtime, model, o);
  REQUIRE(engine.ok());
  REQUIRE((*engine)->warnings().size() == 1);
  CHECK(run_training_step(**engine, model, {}).ok());
}

TEST_CASE("pipelines hide reading and writing behind the step", "[zero3][offload]") {
  auto cluster = sim::load_cluster("dgx-h100", 1);
  REQUIRE(cluster.ok());
  cluster->nvme.read_bytes_per_s = cluster->nvme.write_bytes_per_s =
      cluster->host_memory.bytes_per_s / 2;  // so that each of the three takes about as long
  const auto costs = sim::make_cost_model(*cluster);
  const Model model = chain();
  auto time_of = [&](bool reads, bool writes) {
    Zero3Options o = offloaded(Device::none, Device::nvme);
    o.sub_group_size = Numel{100'000};  // a group a layer
    o.offload_optimizer.buffer_count = 12;
    o.offload_optimizer.pipeline_read = reads;
    o.offload_optimizer.pipeline_write = writes;
    const test::PolicyRun run = test::run_policy(model, *costs, 8, o, {}, 3);
    INFO(run.status.message());
    REQUIRE(run.status.ok());
    return run.steps[2].time;
  };
  const Time serial = time_of(false, false);
  const Time reading = time_of(true, false);
  const Time both = time_of(true, true);
  CHECK(reading < serial);
  CHECK(time_of(false, true) < serial);
  CHECK(both < reading);
}

TEST_CASE("the CPU and the device step their groups at the same time", "[zero3][offload]") {
  const auto costs = sim::make_cost_model(*sim::load_cluster("dgx-h100", 1));
  const Model model = chain();
  auto time_of = [&](double ratio) {
    Zero3Options o = offloaded(Device::none, Device::cpu);
    o.sub_group_size = Numel{100'000};
    o.offload_optimizer.ratio = ratio;
    return test::run_policy(model, *costs, 8, o, {}, 3).steps[2].time;
  };
  CHECK(time_of(0.5) < time_of(1));
  CHECK(time_of(0) < time_of(0.5));
}

}  // namespace
}  // namespace tessera
