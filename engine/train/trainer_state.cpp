// SPDX-License-Identifier: Apache-2.0
#include "engine/train/trainer_state.h"

#include <charconv>

#include "engine/text/json_reader.h"

namespace tessera {

std::string to_json(const TrainerPlace& place) {
  nlohmann::ordered_json json;
  json["step"] = place.step;
  json["epoch"] = place.sampler.epoch;
  json["position"] = place.sampler.position;
  json["seed"] = std::to_string(place.seed);  // all 64 bits
  return json.dump();
}

Result<TrainerPlace> trainer_place(const std::string& json) {
  const auto parsed = parse_json(json, "the trainer's state");
  if (!parsed.ok()) return Status(Code::corrupt, parsed.status().message());
  JsonReader reader(*parsed, "the trainer's state");
  TrainerPlace place;
  place.step = reader.integer("step", 0);
  place.sampler = {reader.integer("epoch", 0), reader.integer("position", 0)};
  const std::string seed = reader.text("seed");
  const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), place.seed);
  if (error != std::errc{} || end != seed.data() + seed.size()) {
    reader.fail("seed", "is no number");
  }
  if (reader.status().ok()) return place;
  return Status(Code::corrupt, reader.status().message());
}

}  // namespace tessera
