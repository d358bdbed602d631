/* hip_decoy.c - a newer libamdhip64 that lies in the loader's path, and is not the one to take. */
extern int vw_test_hip_decoy;
int vw_test_hip_decoy = 1;
