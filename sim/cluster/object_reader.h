// SPDX-License-Identifier: Apache-2.0
// Reads one JSON object of a cluster file: every key is required, none is unknown.
//
// The idea: readers of nested objects share one Status and the first complaint stays, so that the
// code reads straight on and asks once.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::sim {

class ObjectReader {
 public:
  /// `where` ("my.json: gpu.") begins every complaint; `known` are all keys the object may have.
  /// `json` and `status` must outlive the reader.
  ObjectReader(const nlohmann::json& json, std::string where,
               std::initializer_list<const char*> known, Status& status);

  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  /// The value of a key, or `least` or "" after a complaint.
  double number(const char* key, double least, double most);
  std::int64_t integer(const char* key, double least, double most);
  std::string text(const char* key);
  /// A truth value; false after a complaint.
  bool flag(const char* key);
  // The ranges only keep out what must be a mistake of units, such as Gb/s for bytes/s.
  double rate(const char* key) { return number(key, 1e6, 1e18); }
  double share(const char* key) { return number(key, 0.01, 1); }
  Time nanoseconds(const char* key) { return integer(key, 0, 1e9); }
  /// The nested object; the null value if there is none.
  const nlohmann::json& object(const char* key);
  /// A nested object whose keys are names that the file chooses; one without any after a complaint.
  const nlohmann::json& table(const char* key);

  /// Complains about a key: "must be ...".
  void fail(const std::string& key, const std::string& what);

 private:
  const nlohmann::json& json_;
  const std::string where_;
  Status& status_;
};

}  // namespace tessera::sim
