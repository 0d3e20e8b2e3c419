import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { cleanUpAfter } from './clean-up-after.ts'
import { findFreePort } from './free-port.ts'
import { temporaryFolder } from './open-test-app.ts'
import { until } from './until.ts'

const SHIPPED = fileURLToPath(new URL('../../deploy/nginx.conf', import.meta.url))

/** Starts nginx with `deploy/nginx.conf`, without TLS and passwords, in front of services on these ports. Returns its port. */
export async function startNginx(ports: readonly [number, number]): Promise<number> {
  const folder = temporaryFolder()
  const port = await findFreePort()
  const site = readFileSync(SHIPPED, 'utf8')
    .replaceAll(/^ *(?:ssl_certificate|auth_basic).*\n/gm, '')
    .replace('listen 443 ssl', `listen 127.0.0.1:${port}`)
    .replace('127.0.0.1:3000', `127.0.0.1:${ports[0]}`)
    .replace('127.0.0.1:3001', `127.0.0.1:${ports[1]}`)
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const paths = kinds.map(kind => `${kind}_temp_path ${join(folder, kind)};`)
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; master_process off; pid ${join(folder, 'pid')}; error_log ${join(folder, 'error.log')};
     events {}
     http { access_log off; ${paths.join(' ')}
     ${site} }`,
  )
  mkdirSync(join(folder, 'client_body'))
  const nginx = spawn('nginx', ['-p', folder, '-c', 'nginx.conf'], { stdio: 'ignore' })
  const end = cleanUpAfter('cat > /dev/null; kill -KILL "$1"', String(nginx.pid))
  onTestFinished(async () => {
    nginx.kill('SIGTERM')
    if (nginx.exitCode === null) await once(nginx, 'exit')
    end()
  })
  await until(async () => {
    if (nginx.exitCode !== null) throw new Error(readFileSync(join(folder, 'error.log'), 'utf8'))
    return fetch(`http://127.0.0.1:${port}/livez`).then(
      () => true,
      () => false,
    )
  })
  return port
}
