# install.cmake - what `make install` puts where.
#
# Nothing installed contains the prefix: the pkg-config file and the CMake package find their own
# place, so `cmake --install --prefix` and DESTDIR work without configuring again, and an installed
# tree can be moved. Under a prefix that the loader does not search, which is any but /usr, pkg-config
# also gives the library's place to the linker, so that what it links runs.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/vramwise TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(TARGETS vramwise_static vramwise_shared vramwise_analysis_static vramwise_analysis_shared
  EXPORT vramwise_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES adapters/torch/support/vramwise_torch_support.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/vramwise)
install(TARGETS vramwise_torch_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS vramwise_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# Python's start-up hook and what it loads, where `vramwise run` looks for them; with the headers and
# sources from which the adapter for PyTorch is made, as a wheel has them.
set(python_folder ${CMAKE_INSTALL_DATAROOTDIR}/vramwise/python)
install(DIRECTORY python/vramwise DESTINATION ${python_folder}
  FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY include/vramwise DESTINATION ${python_folder}/vramwise/_include
  FILES_MATCHING PATTERN "*.h")
install(DIRECTORY adapters/torch/ DESTINATION ${python_folder}/vramwise/_adapter
  FILES_MATCHING PATTERN "*.cpp" PATTERN "*.h")

# pkg-config: vramwise.pc and vramwise-analysis.pc
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
foreach(module vramwise vramwise-analysis)
  foreach(kind searched unsearched)
    set(pc_search)
    if(kind STREQUAL unsearched)
      set(pc_search " -Wl,-rpath,\${libdir}")
    endif()
    configure_file(cmake/${module}.pc.in ${CMAKE_BINARY_DIR}/${kind}/${module}.pc @ONLY)
  endforeach()
endforeach()
install(CODE "
  set(kind unsearched)
  if(CMAKE_INSTALL_PREFIX MATCHES \"^/usr/?\$\")
    set(kind searched)
  endif()
  file(INSTALL \"${CMAKE_BINARY_DIR}/\${kind}/vramwise.pc\"
    \"${CMAKE_BINARY_DIR}/\${kind}/vramwise-analysis.pc\"
    DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig\")")

# CMake: find_package(vramwise) gives vramwise::vramwise and vramwise::static, vramwise::analysis
# and vramwise::analysis_static
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/vramwise)
configure_package_config_file(cmake/vramwiseConfig.cmake.in
  ${CMAKE_BINARY_DIR}/vramwiseConfig.cmake INSTALL_DESTINATION ${package_folder}
  NO_SET_AND_CHECK_MACRO)
# While the major number is 0 the minor one may break: the promise in vramwise/version.h.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(package_compatibility SameMinorVersion)
else()
  set(package_compatibility SameMajorVersion)
endif()
write_basic_package_version_file(${CMAKE_BINARY_DIR}/vramwiseConfigVersion.cmake
  COMPATIBILITY ${package_compatibility})
install(FILES ${CMAKE_BINARY_DIR}/vramwiseConfig.cmake
  ${CMAKE_BINARY_DIR}/vramwiseConfigVersion.cmake DESTINATION ${package_folder})
install(EXPORT vramwise_targets NAMESPACE vramwise:: FILE vramwiseTargets.cmake
  DESTINATION ${package_folder})

install(FILES ${manual_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES completions/vramwise.bash RENAME vramwise
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions)
install(FILES completions/_vramwise DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/site-functions)
install(FILES LICENSE THIRD_PARTY DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/fleet DESTINATION ${CMAKE_INSTALL_DOCDIR}) # alerts, a dashboard
