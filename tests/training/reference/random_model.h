// SPDX-License-Identifier: Apache-2.0
// Models for tests that train with true numbers.
#pragma once

#include <string>
#include <vector>

#include "tests/random.h"

namespace tessera::test {

// A chain of layers of uneven widths; some frozen, some running twice, two perhaps tied.
struct RandomModel {
  std::string modules, forward, ties;
  std::vector<std::string> can_be_units;
  bool trains = false;
  int width = 0;

  explicit RandomModel(Random& random) {
    width = static_cast<int>(1 + random.below(7));
    const auto layers = 2 + random.below(4);
    for (int k = 0; k < layers; ++k) add_layer(random, "m" + std::to_string(k), k + 1 == layers);
    if (random.chance(25)) add_tied_pair(random);
  }

  std::string json() const {
    return R"({"tessera_model": 1, "name": "random", "root": {"class": "Net", "modules": [)" +
           modules + R"(]}, "forward": [)" + forward + "]" +
           (ties.empty() ? "" : R"(, "ties": [)" + ties + "]") + R"(, "units": []})";
  }

 private:
  static void append(std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  }
  void linear(const std::string& name, int out, bool frozen_weight, bool frozen_bias) {
    auto flag = [](bool frozen) { return frozen ? R"(, "requires_grad": false)" : ""; };
    append(modules, R"({"name": ")" + name + R"(", "class": "Linear", "parameters": [)" +
                        R"({"name": "weight", "shape": [)" + std::to_string(out) + ", " +
                        std::to_string(width) + "]" + flag(frozen_weight) + "}, " +
                        R"({"name": "bias", "shape": [)" + std::to_string(out) + "]" +
                        flag(frozen_bias) + "}]}");
    append(forward, '"' + name + '"');
    width = out;
  }
  void add_layer(Random& random, const std::string& name, bool last) {
    if (!modules.empty() && !last && random.chance(25)) {
      append(modules, R"({"name": ")" + name + R"(", "class": "GELU"})");
      append(forward, '"' + name + '"');
      return;
    }
    const bool frozen = !(last && !trains) && random.chance(30);
    trains |= !frozen;
    const bool square = random.chance(30);
    linear(name, square ? width : static_cast<int>(1 + random.below(7)), frozen,
           frozen || random.chance(15));
    if (square && random.chance(50)) append(forward, '"' + name + '"');
    can_be_units.push_back(name);
  }
  void add_tied_pair(Random& random) {
    linear("t1", width, false, random.chance(50));
    linear("t2", width, false, false);
    append(ties, R"(["t1.weight", "t2.weight"])");
  }
};

}  // namespace tessera::test
