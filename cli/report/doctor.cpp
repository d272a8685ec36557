// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/command.h"
#include "cli/report/table.h"
#include "tessera/cuda_runtime.h"
#include "tessera/host_runtime.h"
#include "tessera/sim/cluster.h"

namespace tessera::cli {
namespace {

struct DoctorArguments {
  bool json = false;
};

constexpr const char* doctor_examples = R"(Examples:
  tessera doctor
  tessera doctor --json

Exit codes: 0 done.)";

constexpr const char* compiler =
#if defined(__clang__)
    "clang " __clang_version__;
#elif defined(__GNUC__)
    "gcc " __VERSION__;
#else
    "unknown";
#endif

#ifdef TESSERA_HAS_ICU
constexpr bool has_icu = true;
#else
constexpr bool has_icu = false;
#endif
#ifdef TESSERA_HAS_DNNL
constexpr bool has_dnnl = true;
#else
constexpr bool has_dnnl = false;
#endif

#ifdef TESSERA_HAS_URING
constexpr bool has_uring = true;
#else
constexpr bool has_uring = false;
#endif

#ifdef TESSERA_HAS_INSPECTOR
constexpr bool has_inspector = true;
#else
constexpr bool has_inspector = false;
#endif

bool set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

std::int64_t memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? std::int64_t{pages} * page_bytes : 0;
}

nlohmann::ordered_json facts() {
  nlohmann::ordered_json json;
  json["tessera_doctor"] = 1;
  json["version"] = version();
  json["compiler"] = compiler;
  json["assertions"] = true;
  json["sqlite"] = TESSERA_SQLITE_VERSION;
  json["inspector"] = has_inspector;
  json["imgui"] = has_inspector ? nlohmann::ordered_json(TESSERA_IMGUI_VERSION) : nullptr;
  json["fonts_embedded"] = has_inspector;
  json["display"] = set("DISPLAY") || set("WAYLAND_DISPLAY");
  const auto cuda = cuda_available();
  const Status mpi = mpi_available();
  json["backends"] = {{"simulator", "available"},
                      {"local", "available"},
                      {"mpi", mpi.ok() ? "available" : mpi.message()},
                      {"cuda", cuda.ok() ? "available: " + *cuda : cuda.status().message()}};
  json["training"] =
      has_dnnl ? "available: oneDNN" : "not built: install libdnnl-dev and configure again";
  json["tokenizers"] =
      has_icu ? "available: ICU" : "not built: install libicu-dev and configure again";
  json["swap_files"] =
      has_uring ? "io_uring" : "threads (faster with io_uring: install liburing-dev)";
  const auto direct = gpu_direct_storage();
  json["gpu_direct_storage"] = direct.ok() ? "available: " + *direct : direct.status().message();
  json["clusters"] = sim::cluster_presets();
  json["cores"] = std::thread::hardware_concurrency();
  json["memory_bytes"] = memory_bytes();
  return json;
}

void print_facts(const nlohmann::ordered_json& json) {
  const auto text = [&](const char* key) { return json[key].get<std::string>(); };
  Table table(fmt::format("tessera {}", text("version")), {});
  table.align_left();
  table.row({"compiler", text("compiler")});
  table.row({"SQLite", text("sqlite")});
  table.row({"inspector", has_inspector
                              ? fmt::format("built, Dear ImGui {}, fonts embedded", text("imgui"))
                              : "not built: install libimgui-dev, libglfw3-dev and "
                                "libgl-dev, configure with -DTESSERA_INSPECTOR=ON"});
  table.row({"display",
             json["display"] ? "available" : "none: use `tessera inspect FILE --screenshot PNG`"});
  for (const auto& [backend, state] : json["backends"].items()) {
    table.row({"backend " + backend, state.get<std::string>()});
  }
  table.row({"training", text("training")});
  table.row({"tokenizers", text("tokenizers")});
  table.row({"files on drives", text("swap_files")});
  table.row({"GPUDirect Storage", text("gpu_direct_storage")});
  table.row({"clusters", fmt::format("{}", fmt::join(sim::cluster_presets(), ", "))});
  table.row({"cores", fmt::format("{}", json["cores"].get<unsigned>())});
  table.row({"memory", fmt::format("{:.1f} GiB", json["memory_bytes"].get<double>() / (1 << 30))});
  fmt::print("{}", table.text(/*bold=*/false));
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand("doctor", "Print what this build can do here");
  command->footer(doctor_examples);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments, &exit_code] {
    const auto json = facts();
    if (arguments->json) {
      fmt::print("{}\n", json.dump(2));
    } else {
      print_facts(json);
    }
    exit_code = exit_ok;
  });
}

}  // namespace tessera::cli
