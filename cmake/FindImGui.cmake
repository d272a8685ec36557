# SPDX-License-Identifier: Apache-2.0
# Finds Dear ImGui with its GLFW and OpenGL 3 backends: target ImGui::ImGui. Debian: libimgui-dev.
find_path(ImGui_INCLUDE_DIR imgui.h PATH_SUFFIXES imgui
          DOC "Folder of imgui.h and backends/imgui_impl_glfw.h")
find_library(ImGui_LIBRARY imgui DOC "Dear ImGui with its GLFW and OpenGL 3 backends compiled in")
# Debian's archive leaves stb_truetype and stb_rect_pack to libstb.
find_library(ImGui_STB_LIBRARY stb DOC "The compiled stb libraries that Debian's Dear ImGui uses")

if(ImGui_INCLUDE_DIR)
  file(STRINGS ${ImGui_INCLUDE_DIR}/imgui.h ImGui_VERSION_LINE
       REGEX "^#define IMGUI_VERSION +\"[0-9.]+")
  string(REGEX MATCH "[0-9.]+" ImGui_VERSION "${ImGui_VERSION_LINE}")
  if(NOT EXISTS ${ImGui_INCLUDE_DIR}/backends/imgui_impl_glfw.h)
    set(ImGui_INCLUDE_DIR ImGui_INCLUDE_DIR-NOTFOUND)
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ImGui REQUIRED_VARS ImGui_LIBRARY ImGui_INCLUDE_DIR ImGui_STB_LIBRARY
  VERSION_VAR ImGui_VERSION
  REASON_FAILURE_MESSAGE "install the packages libimgui-dev and libstb-dev, or configure with -DTESSERA_INSPECTOR=OFF")

if(ImGui_FOUND AND NOT TARGET ImGui::ImGui)
  add_library(ImGui::ImGui UNKNOWN IMPORTED)
  set_target_properties(ImGui::ImGui PROPERTIES
    IMPORTED_LOCATION ${ImGui_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ImGui_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES ${ImGui_STB_LIBRARY})
endif()
mark_as_advanced(ImGui_INCLUDE_DIR ImGui_LIBRARY ImGui_STB_LIBRARY)
