// SPDX-License-Identifier: Apache-2.0
// What lives in files, on ranks that are threads and in the simulator: the same numbers.
#include <cerrno>

#include "engine/swap/block_io.h"
#include "tests/backends/host/as_simulated.h"
#include "tests/backends/host/offloaded_runs.h"
#include "tests/backends/host/thread_ranks.h"
#include "tests/swap/scratch_folder.h"

namespace tessera {
namespace {

TEST_CASE("ranks in threads offload to files as the simulator does, to the bit and to the byte",
          "[host][offload]") {
  const test::ScratchFolder folder;
  const Rank ranks = GENERATE(1, 2, 3);
  for (const auto& [name, scheme] : test::offloaded_schemes(folder.path())) {
    test::check_as_simulated(name, scheme, ranks, test::threads_of(ranks));
  }
}

// One drive that is slow until it is let go, or fails.
class OneDrive final : public BlockIo {
 public:
  OneDrive(const bool& held, const int& error) : held_(held), error_(error) {}
  int start(const BlockRequest& request) override { return io_->start(request); }
  BlockCompletion wait() override {
    CHECK_FALSE(held_);  // the host would stand still
    return judged(io_->wait());
  }
  std::optional<BlockCompletion> poll() override {
    if (held_) return {};
    return judged(io_->wait());
  }
  const char* name() const override { return "one drive"; }

 private:
  BlockCompletion judged(BlockCompletion completion) const {
    if (error_ != 0) completion.result = -error_;
    return completion;
  }
  const bool& held_;
  const int& error_;
  std::unique_ptr<BlockIo> io_ = make_thread_io(1);
};

struct Buffers {
  StreamId compute, drive;
  View host, file;
};

Result<Buffers> make_buffers(Runtime& runtime, const std::string& folder) {
  Buffers b;
  TESSERA_ASSIGN(b.compute, runtime.create_stream("compute", StreamRole::compute));
  TESSERA_ASSIGN(b.drive, runtime.create_stream("nvme", StreamRole::host));
  Allocation request{.bytes = Bytes{16}, .memory = Memory::pinned_host, .stream = b.drive};
  request.where = runtime.world();
  request.name = "here";
  TESSERA_ASSIGN(const BufferId host, runtime.allocate(request));
  request.memory = Memory::nvme;
  request.name = "there";
  request.directory = folder;
  TESSERA_ASSIGN(const BufferId file, runtime.allocate(request));
  b.host = View::whole(host, DType::float32, Numel{4});
  b.file = View::whole(file, DType::float32, Numel{4});
  return b;
}

Op on(Runtime& runtime, StreamId stream, decltype(Op::what) what) {
  return {.stream = stream,
          .where = runtime.world(),
          .after = {},
          .cause = {.unit = "here"},
          .what = std::move(what)};
}

Compute filled(const View& view) {
  return {.cost = {.on_host = true}, .reads = {}, .writes = {view}, .body = [](const auto& c) {
            for (float& x : c.template write_as<float>(0)) x = 7;
          }};
}

TEST_CASE("the host computes while a drive works", "[host][offload]") {
  const test::ScratchFolder folder;
  bool held = true;
  const int error = 0;
  HostOptions options;
  options.swap_io = [&] { return std::make_unique<OneDrive>(held, error); };
  test::require_all_ok(test::on_threads(1, options, [&](ProcessRuntime& host, Rank) -> Status {
    Runtime& runtime = host;
    TESSERA_ASSIGN(const Buffers b, make_buffers(runtime, folder.path()));
    TESSERA_TRY(runtime.submit(on(runtime, b.drive, filled(b.host))).status());
    TESSERA_ASSIGN(const EventId written,
                   runtime.submit(on(runtime, b.drive,
                                     Copy{.pieces = {{.from = b.host, .to = b.file}},
                                          .route = CopyRoute::to_nvme})));
    bool computed = false;
    Compute work{.cost = {}, .reads = {}, .writes = {}, .body = [&](const BodyContext&) {
                   computed = true;
                 }};
    TESSERA_TRY(runtime.submit(on(runtime, b.compute, std::move(work))).status());
    CHECK(computed);  // the write is not over
    held = false;
    // A slot that is given back stays until its write is.
    TESSERA_TRY(runtime.release(b.file.buffer, written, runtime.world()));
    TESSERA_TRY(runtime.release(b.host.buffer, written, runtime.world()));
    return host.finish();
  }));
}

TEST_CASE("a drive that fails ends its rank, naming file and slot", "[host][offload]") {
  const test::ScratchFolder folder;
  const bool held = false;
  const int error = EIO;
  HostOptions options;
  options.swap_io = [&] { return std::make_unique<OneDrive>(held, error); };
  const auto ended = test::on_threads(1, options, [&](ProcessRuntime& host, Rank) -> Status {
    Runtime& runtime = host;
    TESSERA_ASSIGN(const Buffers b, make_buffers(runtime, folder.path()));
    TESSERA_TRY(runtime.submit(on(runtime, b.drive, filled(b.host))).status());
    TESSERA_TRY(runtime
                    .submit(on(runtime, b.drive,
                               Copy{.pieces = {{.from = b.host, .to = b.file}},
                                    .route = CopyRoute::to_nvme}))
                    .status());
    return host.finish();
  });
  CHECK(ended[0].code() == Code::io_error);
  CHECK(ended[0].message().find("writing there (16 bytes") != std::string::npos);
  CHECK(ended[0].message().find("Input/output error") != std::string::npos);
}

}  // namespace
}  // namespace tessera
