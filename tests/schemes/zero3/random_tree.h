// SPDX-License-Identifier: Apache-2.0
// Random module trees with all that a module tree can say, and bodies for them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/model/used_by.h"
#include "tests/random.h"
#include "tests/schemes/zero3/scene.h"

namespace tessera::test {

class RandomTree {
 public:
  explicit RandomTree(Random& random) : random_(random) {
    const auto children = 2 + random.below(3);
    std::string modules;
    for (std::int64_t k = 0; k < children; ++k) {
      append(modules, random.chance(40) ? container("m" + std::to_string(k))
                                        : layer("m" + std::to_string(k), ""));
    }
    json_ = R"({"tessera_model": 1, "name": "random", "root": {"class": "Net", "modules": [)" +
            modules + "]}, \"forward\": [" + order(25, 0) + "], \"graphs\": {\"other\": [" +
            order(25, 40) + "]}, \"reads\": [" + reads() + "], \"returns\": [" + returned_ +
            "], \"input_requires_grad\": " + (random.chance(30) ? "true" : "false") + "}";
  }

  const std::string& json() const { return json_; }
  const std::vector<std::string>& containers() const { return containers_; }

 private:
  static void append(std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  }
  static std::string quoted(const std::string& text) { return '"' + text + '"'; }

  std::string parameter(const std::string& path, const std::string& name) {
    parameters_.push_back(path + "." + name);
    // The last layer is trained in any case, so that there is a backward pass.
    const bool frozen = path != "m0" && random_.chance(15);
    return R"({"name": ")" + name + R"(", "shape": [)" + std::to_string(1 + random_.below(9)) +
           "]" + (frozen ? R"(, "requires_grad": false)" : "") + "}";
  }
  std::string layer(const std::string& name, const std::string& inside) {
    const std::string path = inside + name;
    layers_.push_back(path);
    std::string own = parameter(path, "w");
    if (random_.chance(50)) {
      append(own, parameter(path, "b"));
      if (random_.chance(30))
        append(returned_, "[" + quoted(path) + ", " + quoted(path + ".b") + "]");
    }
    return R"({"name": ")" + name + R"(", "class": "Layer", "outputs": )" +
           std::to_string(1 + random_.below(2)) + R"(, "parameters": [)" + own + "]}";
  }
  std::string container(const std::string& name) {
    containers_.push_back(name);
    std::string modules;
    for (std::int64_t k = 0; k < 1 + random_.below(3); ++k) {
      append(modules, layer("l" + std::to_string(k), name + "."));
    }
    return R"({"name": ")" + name + R"(", "class": "Block", "modules": [)" + modules + "]}";
  }
  std::string order(int repeated, int skipped) {
    std::string out;
    for (const std::string& path : layers_) {
      const bool skips = path != layers_.front() && random_.chance(skipped);
      if (skips) continue;
      append(out, quoted(path));
      if (random_.chance(repeated)) append(out, quoted(path));
    }
    return out;
  }
  std::string reads() {
    std::string out;
    std::vector<std::string> readers = layers_;
    readers.insert(readers.end(), containers_.begin(), containers_.end());
    for (const std::string& reader : readers) {
      const std::string& read =
          parameters_[static_cast<std::size_t>(random_.below(std::ssize(parameters_)))];
      if (!random_.chance(25) || read.rfind(reader + ".", 0) == 0) continue;
      append(out, "[" + quoted(reader) + ", " + quoted(read) + "]");
    }
    return out;
  }

  Random& random_;
  std::vector<std::string> layers_, containers_, parameters_;
  std::string returned_, json_;
};

/// Gradients that depend on the values, the module and the micro-batch, the same on every rank.
inline std::function<std::function<void(const BodyContext&)>(ModuleId, ModuleWork::Pass,
                                                             std::int32_t)>
bodies(const Model& model) {
  auto used = used_by(model);
  const auto reads = reads_of_containers(model);
  for (std::size_t m = 0; m < used.size(); ++m) {
    if (!reads[m].empty()) used[m] = reads[m];
  }
  return [&model, used](ModuleId module, ModuleWork::Pass pass, std::int32_t micro_batch) {
    const auto& list = used[module.index()];
    return [&model, list, module, pass, micro_batch](const BodyContext& context) {
      std::size_t written = 0;
      for (std::size_t k = 0; k < list.size(); ++k) {
        const auto values = context.read_as<float>(k);
        if (pass != ModuleWork::Pass::backward || !model.parameter(list[k]).requires_grad) continue;
        const auto gradient = context.write_as<float>(written++);
        const float at = static_cast<float>(module.value + 1) / static_cast<float>(micro_batch + 2);
        for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += 0.5F * values[i] + at;
      }
    };
  };
}

}  // namespace tessera::test
