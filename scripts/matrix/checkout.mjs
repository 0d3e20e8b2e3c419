import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from './processes.mjs'

export const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

export function lastCommit() {
  return execFileSync('git', ['rev-parse', 'HEAD'], { cwd: PROJECT, encoding: 'utf8' }).trim()
}

/**
 * Installs a release of Node and, with its npm, the project as of `commit`, in an empty folder.
 * `env` is an environment in which `node` is of that release.
 */
export async function makeCheckout({ release, commit, folder, log }) {
  const env = await installNode(release, folder, log)
  const checkout = join(folder, 'checkout')
  await run('git', ['clone', '--quiet', '--no-checkout', PROJECT, checkout], { log })
  await run('git', ['checkout', '--quiet', '--detach', commit], { cwd: checkout, log })
  for (const prefix of ['.', 'bench']) {
    // Only verbose output says why npm left out an optional package, such as a driver.
    const options = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=verbose']
    const npm = { cwd: checkout, env: { ...env, ...networkSettings() }, log }
    await run('npm', ['ci', '--prefix', prefix, ...options], npm)
  }
  const node = execFileSync('node', ['--version'], { env, encoding: 'utf8' }).trim()
  const name = node.startsWith('v20.') ? 'better-sqlite3-node-20' : 'better-sqlite3'
  const driver = join(checkout, 'node_modules', name, 'package.json')
  if (!existsSync(driver)) throw new Error(`npm did not install ${name}: ${log}`)
  const sqlite = JSON.parse(readFileSync(driver, 'utf8')).version
  return { path: checkout, env, node, 'better-sqlite3': sqlite }
}

/** What the environment says about proxies and certificates. */
function networkSettings() {
  const isOfNetwork = name =>
    /^(https?_proxy|no_proxy|node_extra_ca_certs|ssl_cert_(file|dir))$/i.test(name)
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => isOfNetwork(name)))
}

async function installNode(release, folder, log) {
  const name = `node-${process.platform}-${process.arch}`
  const home = join(folder, 'node')
  mkdirSync(home)
  writeFileSync(join(home, 'package.json'), '{ "private": true }')
  const args = ['install', '--no-save', '--no-audit', '--no-fund', `${name}@${release}`]
  await run('npm', args, { cwd: home, log })
  const { PATH, HOME, CHROMIUM_PATH = '' } = process.env
  const bin = join(home, 'node_modules', name, 'bin')
  return { PATH: `${bin}${delimiter}${PATH}`, HOME, CHROMIUM_PATH }
}
