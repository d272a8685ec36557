// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/every_call.h"

#include <fmt/format.h>

namespace tessera::test {
namespace {

// Submits one operation after another; streams wait for each other in between.
class Program {
 public:
  Program(Runtime& runtime, Rank rank) : runtime_(runtime), rank_(rank) {}

  Status setup() {
    TESSERA_ASSIGN(compute_, runtime_.create_stream("compute", StreamRole::compute));
    TESSERA_ASSIGN(comm_, runtime_.create_stream("comm", StreamRole::communication));
    TESSERA_ASSIGN(const auto all, RankGroups::strided(2, 2));
    TESSERA_ASSIGN(world_, runtime_.create_communicator(all, "world"));
    TESSERA_ASSIGN(const auto alone, RankGroups::strided(2, 1));
    TESSERA_ASSIGN(self_, runtime_.create_communicator(alone, "self"));
    return {};
  }

  Result<View> numbers(std::int64_t numel, DType dtype = DType::float32,
                       Memory memory = Memory::device) {
    const std::string_view folder = memory == Memory::nvme ? TESSERA_BINARY_DIR : "";
    TESSERA_ASSIGN(const BufferId id, runtime_.allocate({.bytes = bytes_of(Numel{numel}, dtype),
                                                         .memory = memory,
                                                         .stream = compute_,
                                                         .where = runtime_.world(),
                                                         .cause = {},
                                                         .name = "numbers",
                                                         .directory = folder}));
    return View::whole(id, dtype, Numel{numel});
  }

  Status submit(StreamId stream, decltype(Op::what) what) {
    const StreamId other = stream == comm_ ? compute_ : comm_;
    TESSERA_TRY(put(stream, Wait{other}));
    return put(stream, std::move(what));
  }
  Status compute(Compute what) { return submit(compute_, std::move(what)); }
  Status copy(CopyBlocks piece, CopyRoute route = CopyRoute::on_device) {
    return submit(compute_, Copy{.index_in = {}, .pieces = {piece}, .route = route});
  }
  Status collective(decltype(Op::what) what) { return submit(comm_, std::move(what)); }

  // Element i becomes 10 * rank + i + 1.
  Status fill(const View& view) {
    return compute({.cost = {},
                    .reads = {},
                    .writes = {view},
                    .body =
                        [](const BodyContext& c) {
                          std::size_t i = 0;
                          for (float& x : c.write_as<float>(0)) {
                            x = static_cast<float>(10 * c.rank()) + static_cast<float>(++i);
                          }
                        },
                    .on_numbers = true});
  }
  Status expect(const View& view, std::int64_t element, float rank0, float rank1) {
    TESSERA_TRY(compute({.cost = {}, .reads = {view}, .writes = {}, .body = {}}));
    View one = view;
    one.first += Numel{element};
    one.numel = Numel{1};
    TESSERA_ASSIGN(const auto read, runtime_.read(one));
    if (read[0] == rank0 && read[1] == rank1) return {};
    return Status(Code::corrupt,
                  fmt::format("{} and {} instead of {} and {}", read[0], read[1], rank0, rank1));
  }
  CommunicatorId world() const { return world_; }
  CommunicatorId self() const { return self_; }

 private:
  Status put(StreamId stream, decltype(Op::what) what) {
    return runtime_
        .submit({.stream = stream,
                 .where = runtime_.world(),
                 .after = {},
                 .cause = {.unit = "here"},
                 .what = std::move(what)})
        .status();
  }

  Runtime& runtime_;
  Rank rank_;
  StreamId compute_, comm_;
  CommunicatorId world_, self_;
};

Status copies(Program& p) {
  TESSERA_ASSIGN(const View a, p.numbers(6));
  TESSERA_ASSIGN(const View half, p.numbers(6, DType::bfloat16));
  TESSERA_ASSIGN(const View back, p.numbers(8));
  TESSERA_ASSIGN(const View rows, p.numbers(6));
  TESSERA_ASSIGN(const View host, p.numbers(6, DType::float32, Memory::pinned_host));
  TESSERA_ASSIGN(const View host2, p.numbers(6, DType::float32, Memory::pinned_host));
  TESSERA_ASSIGN(const View file, p.numbers(6, DType::float32, Memory::nvme));
  TESSERA_TRY(p.fill(a));
  TESSERA_TRY(p.copy({.from = a, .to = half}));
  View widened = half;
  widened.numel = Numel{8};  // two more than there are: they become zero
  TESSERA_TRY(p.copy({.from = widened, .to = back}));
  TESSERA_TRY(p.expect(back, 5, 6, 16));
  TESSERA_TRY(p.expect(back, 7, 0, 0));
  // Rows of 2 in steps of 3, to rows in steps of 2; then cast, as rows, too.
  const CopyBlocks piece{View::part(a.buffer, DType::float32, Numel{0}, Numel{2}),
                         View::part(rows.buffer, DType::float32, Numel{0}, Numel{2}), 2, Numel{3},
                         Numel{2}};
  CopyBlocks blocks = piece;
  blocks.from.end = blocks.to.end = Numel{6};
  TESSERA_TRY(p.copy({.from = {.numel = rows.numel}, .to = rows}));
  TESSERA_TRY(p.copy(blocks));
  TESSERA_TRY(p.expect(rows, 2, 4, 14));
  blocks.from = View::part(half.buffer, DType::bfloat16, Numel{0}, Numel{2});
  blocks.from.end = Numel{6};
  TESSERA_TRY(p.copy(blocks));
  TESSERA_TRY(p.expect(rows, 3, 5, 15));
  TESSERA_TRY(p.copy({.from = a, .to = host}, CopyRoute::to_host));
  Compute twice{.cost = {.on_host = true}, .reads = {host}, .writes = {host2}, .body = {}};
  twice.body = [](const BodyContext& c) {
    c.kernels().scale({c.read(0), DType::float32}, {c.write(0), DType::float32}, 2);
  };
  TESSERA_TRY(p.compute(twice));
  TESSERA_TRY(p.copy({.from = host2, .to = file}, CopyRoute::to_nvme));
  TESSERA_TRY(p.copy({.from = file, .to = host}, CopyRoute::from_nvme));
  TESSERA_TRY(p.copy({.from = host, .to = host2}, CopyRoute::on_host));
  TESSERA_TRY(p.copy({.from = host2, .to = host}, CopyRoute::on_host));
  TESSERA_TRY(p.copy({.from = host, .to = a}, CopyRoute::to_device));
  TESSERA_TRY(p.copy({.from = a, .to = file}, CopyRoute::device_to_nvme));
  TESSERA_TRY(p.fill(a));
  TESSERA_TRY(p.copy({.from = file, .to = a}, CopyRoute::nvme_to_device));
  return p.expect(a, 1, 4, 24);
}

Status kernels(Program& p) {
  TESSERA_ASSIGN(const View a, p.numbers(4));
  TESSERA_ASSIGN(const View b, p.numbers(4));
  TESSERA_ASSIGN(const View one, p.numbers(1));
  TESSERA_TRY(p.fill(a));
  Compute work{.cost = {}, .reads = {a}, .writes = {b, one}, .body = {}, .zeroed = {1}};
  work.body = [](const BodyContext& c) {
    const ConstElements from{c.read(0), DType::float32};
    const Elements to{c.write(0), DType::float32};
    const Elements sum{c.write(1), DType::float32};
    c.kernels().scale(from, to, 2);
    c.kernels().add(from, to);
    c.kernels().divide(to, 3);
    c.kernels().add_norm(Norm::l1, to, sum);
    std::vector<float> read(4);
    c.kernels().read(to, read);
    read[0] += 1;
    c.kernels().write(read, to);
  };
  TESSERA_TRY(p.compute(work));
  TESSERA_TRY(p.expect(one, 0, 10, 50));
  return p.expect(b, 0, 2, 12);
}

// The third time its graph is launched alone.
Status repeats(Program& p) {
  TESSERA_ASSIGN(const View a, p.numbers(4));
  TESSERA_TRY(p.fill(a));
  Compute half{.cost = {}, .reads = {}, .writes = {a}, .body = {}};
  half.body = [](const BodyContext& c) { c.kernels().divide({c.write(0), DType::float32}, 2); };
  half.repeated = {std::make_shared<int>(0), 1};
  for (int k = 0; k < 3; ++k) TESSERA_TRY(p.compute(half));
  return p.expect(a, 3, 0.5F, 1.75F);
}

Status collectives(Program& p) {
  TESSERA_ASSIGN(const View a, p.numbers(4));
  TESSERA_ASSIGN(const View all, p.numbers(8));
  TESSERA_ASSIGN(const View part, p.numbers(2));
  TESSERA_ASSIGN(const View swapped, p.numbers(4));
  TESSERA_TRY(p.fill(a));
  TESSERA_TRY(p.collective(AllGather{p.world(), a, all}));
  TESSERA_TRY(p.expect(all, 4, 11, 11));
  TESSERA_TRY(p.collective(ReduceScatter{p.world(), a, part, Reduction::sum, 0.5F}));
  TESSERA_TRY(p.expect(part, 0, 6, 8));
  TESSERA_TRY(p.collective(AllToAll{p.world(), a, swapped}));
  TESSERA_TRY(p.expect(swapped, 2, 11, 13));
  TESSERA_TRY(p.collective(Reduce{p.world(), a, swapped, Reduction::max, 0}));
  TESSERA_TRY(p.expect(swapped, 0, 11, 3));
  TESSERA_TRY(p.collective(Broadcast{p.world(), swapped, 0}));
  TESSERA_TRY(p.expect(swapped, 0, 11, 11));
  TESSERA_TRY(p.collective(AllReduce{p.world(), a, a, Reduction::average}));
  TESSERA_TRY(p.expect(a, 0, 6, 6));
  TESSERA_TRY(p.collective(AllReduce{p.self(), a, a, Reduction::sum}));
  return p.expect(a, 0, 6, 6);
}

}  // namespace

Status every_call(ProcessRuntime& host, Rank rank) {
  Program program(host, rank);
  TESSERA_TRY(program.setup());
  TESSERA_TRY(copies(program));
  TESSERA_TRY(kernels(program));
  TESSERA_TRY(repeats(program));
  TESSERA_TRY(collectives(program));
  return host.finish();
}

}  // namespace tessera::test
