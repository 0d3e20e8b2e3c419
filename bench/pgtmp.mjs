import pg from 'pg'
import { createPostgresUserRepository } from '/work/main/dist/storage/postgres/postgres-user-repository.js'
import { openConnections } from '/work/main/dist/storage/postgres/open-connections.js'
import { migratePostgres, postgresMigrations } from '/work/main/dist/storage/postgres/postgres-migrator.js'
const name = 'bench_core'
const admin = new pg.Client('postgres://root@127.0.0.1:5432/postgres'); await admin.connect()
await admin.query(`drop database if exists ${name} with (force)`); await admin.query(`create database ${name}`)
const location = { kind: 'postgres', url: '', hosts: [{ host: '127.0.0.1', port: 5432 }], user: 'root', database: name, password: undefined, tls: undefined, applicationName: 'x', connectTimeoutMs: undefined, options: undefined }
const connections = openConnections({ location })
await migratePostgres({ connections, migrations: postgresMigrations(), now: Date.now })
const r = createPostgresUserRepository({ connections, now: Date.now, steadyNow: Date.now, maxWaiting: 10000 })
const direct = new pg.Client(`postgres://root@127.0.0.1:5432/${name}`); await direct.connect()
await direct.query(`insert into users(name,name_lower,email,created_at,updated_at) select 'Ann '||i,'ann '||i,'a'||i||'@x.org','2026-01-31T12:00:00.000Z','2026-01-31T12:00:00.000Z' from generate_series(1,100000) i`)
await direct.query('vacuum analyze users')
const pids = async () => (await direct.query(`select pid from pg_stat_activity where datname='${name}'`)).rows.map(x=>x.pid)
import { readFileSync } from 'node:fs'
const cpuOf = (pid) => { try { const s=readFileSync(`/proc/${pid}/stat`,'utf8'); const f=s.slice(s.lastIndexOf(')')+2).split(' '); return (Number(f[11])+Number(f[12]))*10_000 } catch { return 0 } }
async function measure(label, n, width, op) {
  let i=0
  const run = async()=>{ while(i<n) await op(i++) }
  for (let k=0;k<200;k++) await op(k)
  i=0
  const p=await pids(); const before=p.reduce((a,b)=>a+cpuOf(b),0); const c0=process.cpuUsage(); const t=performance.now()
  await Promise.all(Array.from({length:width},run))
  const ms=performance.now()-t; const c=process.cpuUsage(c0); const after=p.reduce((a,b)=>a+cpuOf(b),0)
  console.log(label.padEnd(28), 'width',width,'ops/s',Math.round(n/ms*1000),'node µs',((c.user+c.system)/n).toFixed(1),'pg µs',((after-before)/n).toFixed(1),'ms/op',(ms/n*width).toFixed(3))
}
const id=()=>1+Math.floor(Math.random()*100000)
const FIRST = { sort: { by: 'id', descending: false }, filters: {}, limit: 100, start: { offset: 0 }, withTotal: false }
await measure('direct find', 5000,1,()=>direct.query({name:'x',text:`select '{"id":'||id||shown from users where id=$1`,values:[id()],rowMode:'array'}))
await measure('find', 5000,1,()=>r.find(id()))
await measure('find', 200000,50,()=>r.find(id()))
await measure('page', 20000,50,()=>r.list({...FIRST,start:{key:'',id:id()-101}}))
await measure('page by name', 20000,50,()=>r.list({...FIRST,sort:{by:'name',descending:false},start:{key:'ann '+id(),id:1}}))
await measure('page alone', 2000,1,()=>r.list({...FIRST,start:{key:'',id:id()-101}}))
await measure('revision', 100000,50,()=>r.revision())
let n=0
await measure('create', 50000,50,()=>r.create({name:'Ann',email:`n${n++}@y.org`,passwordDigest:null}))
await measure('create alone', 2000,1,()=>r.create({name:'Ann',email:`n${n++}@y.org`,passwordDigest:null}))
await measure('direct create', 2000,1,()=>direct.query({name:'y',text:`insert into users(name,name_lower,email,created_at,updated_at) values ($1,$2,$3,$4,$5) returning '{"id":'||id||shown`,values:['Ann','ann',`n${n++}@y.org`,'2026-01-31T12:00:00.000Z','2026-01-31T12:00:00.000Z'],rowMode:'array'}))
await measure('update', 50000,50,()=>r.update(id(),{name:'B'+Math.random()}))
await measure('update alone', 2000,1,()=>r.update(id(),{name:'B'+Math.random()}))
await measure('delete', 20000,50,i=>r.delete(100000-i))
await connections.close(); await direct.end(); await admin.query(`drop database ${name} with (force)`); await admin.end()
