# What `cmake --install` lays down: library, header, dlpack.h, a CMake package and a pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS kina kina_header EXPORT kinaTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/kina_runtime.h include/kina_simulated.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Another package's dlpack.h stays: a 1.x one serves us as well, any other is refused.
set(dlpack_source "${KINA_DLPACK_INCLUDE_DIR}/dlpack/dlpack.h")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/install_dlpack.cmake" @ONLY CONTENT [[
set(target "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/@CMAKE_INSTALL_INCLUDEDIR@/dlpack")
if(EXISTS "${target}/dlpack.h")
  file(STRINGS "${target}/dlpack.h" major REGEX "^#define DLPACK_MAJOR_VERSION 1$")
  if(NOT major)
    message(FATAL_ERROR "${target}/dlpack.h is not DLPack 1.x and is not ours to replace: install to another prefix")
  endif()
  message(STATUS "Kept: ${target}/dlpack.h")
else()
  file(INSTALL "@dlpack_source@" DESTINATION "${target}")
endif()
]])
install(SCRIPT "${PROJECT_BINARY_DIR}/install_dlpack.cmake")

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/kina)
install(EXPORT kinaTargets NAMESPACE kina:: DESTINATION ${package_folder})
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/kinaConfig.cmake" CONTENT [[
# The installed runtime: link kina::kina, or take kina::kina_header alone.
include("${CMAKE_CURRENT_LIST_DIR}/kinaTargets.cmake")
]] @ONLY)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kinaConfigVersion.cmake" COMPATIBILITY SameMajorVersion)
install(FILES "${PROJECT_BINARY_DIR}/kinaConfig.cmake" "${PROJECT_BINARY_DIR}/kinaConfigVersion.cmake"
  DESTINATION ${package_folder})

file(RELATIVE_PATH to_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/kina.pc" @ONLY CONTENT [[
prefix=${pcfiledir}/@to_prefix@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: kina
Description: The C ABI runtime of compiled tensor programs
Version: @PROJECT_VERSION@
Libs: -L${libdir} -lkina
Cflags: -I${includedir}
]])
install(FILES "${PROJECT_BINARY_DIR}/kina.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
