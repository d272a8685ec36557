// SPDX-License-Identifier: Apache-2.0
#include "engine/train/language/workspace.h"

namespace tessera::language {

WorkspaceLayout workspace_at(std::byte* base, const Plan& plan, bool apart) {
  const Shape& s = plan.shape;
  const std::int64_t stream = s.tokens() * s.width;
  Room room(base);
  WorkspaceLayout out;
  Workspace& w = out.work;
  w.x = room.floats(stream);
  w.dx = apart ? room.floats(stream) : w.x;
  w.dy = room.floats(stream);
  w.y = {w.dy, s.dtype};
  auto ids = [&room](std::int64_t count) {
    return room.take(count, DType::int32).as<std::int32_t>();
  };
  w.data = ids(s.batch * (s.length + 1));
  w.inputs = ids(s.tokens());
  w.targets = ids(s.tokens());
  constexpr std::int64_t alignment = 64;
  out.scratch_of_thread =
      Bytes{(plan.matmuls.scratch().value + alignment - 1) / alignment * alignment};
  w.scratch = room.bytes(out.scratch_of_thread * s.threads);
  out.bytes = room.used();
  return out;
}

void split_tokens(const Plan& plan, const Workspace& work) {
  const Shape& s = plan.shape;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    const std::int32_t* const from = work.data + b * (s.length + 1);
    for (std::int64_t t = 0; t <= s.length; ++t) {
      TESSERA_ASSERT(from[t] >= 0 && from[t] < plan.vocabulary, "tokens of the vocabulary");
      if (t < s.length) work.inputs[b * s.length + t] = from[t];
      if (t > 0) work.targets[b * s.length + t - 1] = from[t];
    }
  }
}

}  // namespace tessera::language
