// SPDX-License-Identifier: Apache-2.0
#include "engine/base/live_engines.h"

#include <fmt/format.h>

#include <mutex>
#include <set>
#include <utility>

#include "tessera/model.h"

namespace tessera {
namespace {

struct Registry {
  std::mutex mutex;
  std::multiset<std::pair<const Runtime*, const Model*>> engines;
};

Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

LiveEngine::LiveEngine(const Runtime& runtime, const Model& model)
    : runtime_(runtime), model_(model) {
  const std::scoped_lock lock(registry().mutex);
  registry().engines.emplace(&runtime, &model);
}

LiveEngine::~LiveEngine() {
  const std::scoped_lock lock(registry().mutex);
  registry().engines.erase(registry().engines.find({&runtime_, &model_}));
}

Status LiveEngine::expect_none(const Runtime& runtime, const Model& model) {
  const std::scoped_lock lock(registry().mutex);
  if (!registry().engines.contains({&runtime, &model})) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} is replicated or sharded on this runtime already: one engine owns "
                            "its parameters",
                            model.name));
}

}  // namespace tessera
