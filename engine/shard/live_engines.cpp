// SPDX-License-Identifier: Apache-2.0
#include "engine/shard/live_engines.h"

#include <mutex>
#include <set>
#include <utility>

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

bool LiveEngine::exists(const Runtime& runtime, const Model& model) {
  const std::scoped_lock lock(registry().mutex);
  return registry().engines.contains({&runtime, &model});
}

}  // namespace tessera
