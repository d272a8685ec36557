// SPDX-License-Identifier: Apache-2.0
#include "tessera/checked_runtime.h"
#include "tessera/recording.h"

namespace tessera {
namespace {

class RecordingRuntime final : public CheckedRuntime {
 public:
  RecordingRuntime(Rank world_size, Recording& recording)
      : CheckedRuntime(RankSet::all(world_size), RankSet::all(world_size)), recording_(recording) {
    recording_ = {};
    recording_.world_size = world_size;
  }

  Result<PerRank<float>> read(const View&) override {
    return Status(Code::not_supported, "a recording keeps no numbers: use the numeric simulator");
  }
  PerRank<Time> now() const override { return PerRank<Time>(0); }

 private:
  Status stream_created(StreamId, const Stream& stream) override {
    recording_.streams.push_back(stream.name);
    return {};
  }

  Status buffer_requested(BufferId id, const Allocation& request) override {
    recording_.buffers.push_back({std::string(request.name), request.bytes, request.memory_class,
                                  std::string(request.cause.unit), request.stream});
    Record record;
    record.kind = Record::Kind::allocate;
    record.buffer = id;
    record.where = request.where;
    record.cause = request.cause;
    record.stream = request.stream;
    recording_.records.push_back(std::move(record));
    return {};
  }

  void buffer_released(BufferId id, EventId after, const RankSet& ranks) override {
    Record record;
    record.kind = Record::Kind::release;
    record.buffer = id;
    record.event = after;
    record.where = ranks;
    recording_.records.push_back(std::move(record));
  }

  Status execute(const Op& op, EventId event) override {
    Record record;
    record.op = op;
    record.op.after = {};
    if (auto* compute = std::get_if<Compute>(&record.op.what)) compute->body = nullptr;
    record.after.assign(op.after.begin(), op.after.end());
    record.event = event;
    record.where = op.where;
    record.cause = op.cause;
    record.stream = op.stream;
    recording_.records.push_back(std::move(record));
    return {};
  }

  Status await_event(EventId event) override {
    Record record;
    record.kind = Record::Kind::host_wait;
    record.event = event;
    record.where = world();
    recording_.records.push_back(std::move(record));
    return {};
  }

  Recording& recording_;
};

}  // namespace

std::unique_ptr<Runtime> make_recording_runtime(Rank world_size, Recording& recording) {
  return std::make_unique<RecordingRuntime>(world_size, recording);
}

}  // namespace tessera
