// SPDX-License-Identifier: Apache-2.0
// The parts of which small host programs are made.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "tessera/runtime.h"

namespace tessera::test {

// A millisecond passes whenever somebody looks.
inline std::function<Time()> patient_clock() {
  auto looks = std::make_shared<std::atomic<Time>>(0);
  return [looks] { return *looks += 1'000'000; };
}

struct Streams {
  StreamId compute, communication;
  CommunicatorId world;
};

inline Result<Streams> make_streams(Runtime& runtime) {
  Streams s;
  TESSERA_ASSIGN(s.compute, runtime.create_stream("compute", StreamRole::compute));
  TESSERA_ASSIGN(s.communication, runtime.create_stream("comm", StreamRole::communication));
  TESSERA_ASSIGN(const auto all,
                 RankGroups::strided(runtime.world().count(), runtime.world().count()));
  TESSERA_ASSIGN(s.world, runtime.create_communicator(all, "world"));
  return s;
}

inline Result<View> numbers(Runtime& runtime, const Streams& s, std::int64_t numel) {
  TESSERA_ASSIGN(const BufferId id, runtime.allocate({.bytes = Bytes{4 * numel},
                                                      .stream = s.compute,
                                                      .where = runtime.world(),
                                                      .cause = {},
                                                      .name = "numbers"}));
  return View::whole(id, DType::float32, Numel{numel});
}

inline Op on(Runtime& runtime, StreamId stream, decltype(Op::what) what) {
  return {.stream = stream,
          .where = runtime.world(),
          .after = {},
          .cause = {.unit = "here"},
          .what = std::move(what)};
}

inline Compute fill(const View& view, float value) {
  return {.cost = {}, .reads = {}, .writes = {view}, .body = [value](const BodyContext& context) {
            for (float& x : context.write_as<float>(0))
              x = value + static_cast<float>(context.rank());
          }};
}

}  // namespace tessera::test
