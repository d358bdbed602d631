import { defineConfig } from 'vitest/config';

// One script and one style sheet, which scripts/seal.mjs puts into the page. Names are fixed and
// nothing depends on the machine: the committed page must come out byte for byte.
export default defineConfig({
  base: './',
  build: {
    target: 'es2022',
    outDir: 'build',
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 1 << 20,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        inlineDynamicImports: true,
        entryFileNames: 'page.js',
        assetFileNames: 'page.[ext]',
      },
    },
  },
  test: { environment: 'node', include: ['src/**/*.test.ts', 'scripts/**/*.test.mjs'] },
});
